"""The lab, the lessons and the claims, which explain what the library and the workbench do, and test it."""
