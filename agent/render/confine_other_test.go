//go:build !linux || (!amd64 && !arm64)

package render_test

// probe has no walls to stand behind here.
func probe(string) int { return 0 }
