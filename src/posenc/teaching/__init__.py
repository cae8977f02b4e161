"""Lab, lessons and claims: what people see and may check. It reads what the library and the workbench compute."""
