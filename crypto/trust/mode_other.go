//go:build !unix

package trust

import "io/fs"

// writableByOthers is not told by the mode here.
func writableByOthers(fs.FileInfo) bool { return false }
