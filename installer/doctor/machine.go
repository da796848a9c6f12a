package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const (
	// little is how much free space is worth a warning, tooLittle how much is a failure, in bytes.
	little    = 1 << 30
	tooLittle = 100 << 20
)

// machine are the checks of this machine.
func (x *exam) machine() []Check {
	return []Check{{Group: "machine", Name: "disk space", Before: true, Run: x.disk}}
}

// disk looks at each file system that this program writes to.
func (x *exam) disk(context.Context) Result {
	folders := x.Folders
	if x.Repo != nil {
		folders = append([]string{x.Repo.Root()}, folders...)
	}
	worst, free := "", uint64(0)
	for _, folder := range folders {
		at, err := existing(folder)
		if err != nil {
			return because(err, fmt.Sprintf("%q cannot be looked at", folder), "see that you may read and write it")
		}
		var stat syscall.Statfs_t
		if err := syscall.Statfs(at, &stat); err != nil {
			return because(fmt.Errorf("statfs: %w", err), fmt.Sprintf("the free space of %q is unknown", at),
				"see that you may read and write it")
		}
		if left := stat.Bavail * uint64(stat.Bsize); worst == "" || left < free {
			worst, free = at, left
		}
	}
	text := fmt.Sprintf("%d MiB free at %s", free>>20, worst)
	fix := fmt.Sprintf("make room there: at least %d MiB", little>>20)
	switch {
	case worst == "":
		return skipped("nothing is written")
	case free < tooLittle:
		return fail(fix, "%s", text)
	case free < little:
		return warn(fix, "%s", text)
	}
	return ok("%s", text)
}

// existing is the nearest folder upward that is there.
func existing(folder string) (string, error) {
	at, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(at)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return at, err
		}
		at = filepath.Dir(at)
	}
}
