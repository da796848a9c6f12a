//go:build unix

package identities

import (
	"io/fs"
	"os"
	"syscall"
)

// foreign says whether a file belongs to another user than this process's.
func foreign(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) != os.Geteuid()
}
