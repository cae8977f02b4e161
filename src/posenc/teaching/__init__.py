"""The lab, lessons and claims, which show and test results of the library and the workbench."""
