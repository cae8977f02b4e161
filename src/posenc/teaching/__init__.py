"""The lab, the lessons and the claims, which explain the library and the workbench and test these explanations."""
