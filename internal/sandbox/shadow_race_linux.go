//go:build race

package sandbox

// shadow is how many bytes the process maps for each one it uses: the race detector keeps several of its own.
const shadow = 12
