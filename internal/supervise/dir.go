// Package supervise owns processes that outlive the command that started them.
//
// A folder is the whole interface: one file a process says what should run, status.json says what does. The supervisor
// (Run) makes the second follow the first until it is told to stop; commands (Dir) write the first and read the second.
// What a process is for is not known here. Each gets a pipe as its standard input that ends with the supervisor,
// however that ends, so that a process that watches it (package lifeline) is never left behind.
package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	wantedDir  = "processes"
	statusFile = "status.json"
	lockFile   = "supervisor.lock"
	logDir     = "logs"
)

// Process is what should run.
type Process struct {
	Name string `json:"name"`
	// Command is the program's absolute path and its arguments. It holds no secret: anybody may list arguments.
	Command []string `json:"command"`
	// Stopped keeps a process known, but down.
	Stopped bool `json:"stopped,omitempty"`
}

// State is what became of a process.
type State struct {
	// PID is 0 while the process is not running.
	PID int `json:"pid,omitempty"`
	// Since is when it was started, or when it ended.
	Since time.Time `json:"since"`
	// Restarts counts how often it ended unasked.
	Restarts int `json:"restarts,omitempty"`
	// Exit is how it ended last, "exit status 1" or "signal: killed".
	Exit string `json:"exit,omitempty"`
}

// Dir is a supervisor's folder, as those see it who ask for processes.
type Dir string

// Set asks for a process, in place of an older wish of that name.
func (d Dir) Set(p Process) error {
	if err := os.MkdirAll(filepath.Join(string(d), wantedDir), 0o700); err != nil {
		return fmt.Errorf("ask for process %s: %w", p.Name, err)
	}
	if err := writeJSON(d.wanted(p.Name), p); err != nil {
		return fmt.Errorf("ask for process %s: %w", p.Name, err)
	}
	return nil
}

// Stop asks for a process to be down, or, with stopped false, up again.
func (d Dir) Stop(name string, stopped bool) error {
	var p Process
	if err := readJSON(d.wanted(name), &p); err != nil {
		return fmt.Errorf("no process %q: %w", name, err)
	}
	p.Stopped = stopped
	return d.Set(p)
}

// Wanted lists the processes that are asked for.
func (d Dir) Wanted() (map[string]Process, error) {
	entries, err := os.ReadDir(filepath.Join(string(d), wantedDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	wanted := make(map[string]Process, len(entries))
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".json") {
			continue
		}
		var p Process
		if err := readJSON(filepath.Join(string(d), wantedDir, entry.Name()), &p); err != nil {
			return nil, fmt.Errorf("read process %s: %w", entry.Name(), err)
		}
		wanted[p.Name] = p
	}
	return wanted, nil
}

// Status tells what became of each process. It is empty before the first supervisor.
func (d Dir) Status() (map[string]State, error) {
	states := map[string]State{}
	err := readJSON(filepath.Join(string(d), statusFile), &states)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read status of processes: %w", err)
	}
	return states, nil
}

// Log is where a process's output goes.
func (d Dir) Log(name string) string { return filepath.Join(string(d), logDir, name+".log") }

func (d Dir) wanted(name string) string { return filepath.Join(string(d), wantedDir, name+".json") }

func (d Dir) lock() string { return filepath.Join(string(d), lockFile) }

func readJSON(file string, into any) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

func writeJSON(file string, value any) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*.tmp") // two commands may write at once
	if err != nil {
		return err
	}
	_, err = temp.Write(raw)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return err
}
