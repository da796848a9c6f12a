package revision

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// load gives what was remembered; nil when nothing was.
func load(file string) (*Published, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read last edition: %w", err)
	}
	p := new(Published)
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("read last edition: %s: %w", file, err)
	}
	if len(p.Edition.Commit) != 40 {
		return nil, fmt.Errorf("read last edition: %s holds no commit id", file)
	}
	return p, nil
}

// save replaces the file at once: temporary name, sync, rename.
func save(file string, p *Published) (err error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write last edition: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(file), ".edition-")
	if err != nil {
		return fmt.Errorf("write last edition: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write last edition: %w", errors.Join(err, os.Remove(temp.Name())))
		}
	}()
	_, err = temp.Write(raw)
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}
