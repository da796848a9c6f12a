//go:build unix

package trust

import "io/fs"

// writableByOthers says whether anybody but the owner may change the file.
func writableByOthers(info fs.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }
