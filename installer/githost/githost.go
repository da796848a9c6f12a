// Package githost owns what an installation repo needs of the GitHub that hosts it.
package githost
