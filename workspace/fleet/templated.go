package fleet

import "slices"

// Templated says whether the text at a path of a Service's spec is a template, that is filled in for each cluster. Items of lists
// are named by their number. Keys of maps are never templates.
func Templated(path ...string) bool {
	if len(path) < 2 {
		return false
	}
	switch path[0] {
	case "parameters":
		return len(path) == 2
	case "helm":
		return path[1] == "values" && len(path) > 2
	case "tests":
		return templatedTest(path[2:])
	}
	return false
}

// templatedTest is Templated for what is below one of the tests.
func templatedTest(path []string) bool {
	if len(path) < 2 {
		return false
	}
	switch path[0] {
	case "job":
		return true
	case "http":
		return len(path) == 2 && slices.Contains([]string{"path", "body", "contains"}, path[1]) || len(path) == 3 && path[1] == "headers"
	case "cel":
		return len(path) == 3 && slices.Contains([]string{"namespace", "name", "selector", "expression", "message"}, path[2])
	}
	return false
}
