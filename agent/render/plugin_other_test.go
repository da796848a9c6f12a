//go:build !linux || (!amd64 && !arm64)

package render_test

const pluginName = "no plugin"

// There are no walls for a plugin to stand behind here.
func plugin() int { return 0 }
