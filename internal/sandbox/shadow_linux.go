//go:build !race

package sandbox

// shadow is how many bytes the process maps for each one it uses.
const shadow = 1
