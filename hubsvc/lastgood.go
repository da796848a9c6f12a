package hubsvc

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// lastGood is the file that holds the id of the commit being served, so that a restart does not depend on the newest
// commit, which may be worse.
type lastGood string

// load returns the id, or "" when no commit was served so far.
func (file lastGood) load() (string, error) {
	raw, err := os.ReadFile(string(file))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read last good commit: %w", err)
	}
	id := strings.TrimSpace(string(raw))
	if _, err := hex.DecodeString(id); err != nil || len(id) != 40 {
		return "", fmt.Errorf("read last good commit: %s holds no commit id", string(file))
	}
	return id, nil
}

// save replaces the id at once: temporary name, sync, rename.
func (file lastGood) save(id string) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(string(file)), ".good-")
	if err != nil {
		return fmt.Errorf("write last good commit: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write last good commit: %w", errors.Join(err, os.Remove(temp.Name())))
		}
	}()
	_, err = temp.WriteString(id + "\n")
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), string(file))
}
