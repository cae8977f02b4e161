"""The lab, the lessons and the claims, which show and test results of the library and the workbench."""
