package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	// look is how often the folder is read: a wish is granted within it.
	look = 150 * time.Millisecond
	// patience is how long a process may take to stop after SIGTERM.
	patience = 6 * time.Second
	// Pauses before a process that ended unasked is started again.
	firstPause = 200 * time.Millisecond
	lastPause  = 10 * time.Second
	// longRun resets the pause.
	longRun = 30 * time.Second
)

// ErrRunning says that the folder has a supervisor already.
var ErrRunning = errors.New("a supervisor is running already")

type supervisor struct {
	dir     Dir
	log     *slog.Logger
	states  map[string]State
	running map[string]*child
	pause   map[string]time.Duration
	due     map[string]time.Time
	exits   chan exit
}

type child struct {
	cmd     *exec.Cmd
	process Process
	kill    *time.Timer // set while it is being stopped
}

type exit struct {
	name string
	err  error
}

// Run is the supervisor. It returns when ctx has ended and every process has.
func Run(ctx context.Context, dir Dir, log *slog.Logger) error {
	if err := os.MkdirAll(filepath.Join(string(dir), logDir), 0o700); err != nil {
		return fmt.Errorf("make log folder: %w", err)
	}
	unlock, err := takeLock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	s := &supervisor{
		dir: dir, log: log, states: map[string]State{}, running: map[string]*child{},
		pause: map[string]time.Duration{}, due: map[string]time.Time{}, exits: make(chan exit),
	}
	return s.run(ctx)
}

func (s *supervisor) run(ctx context.Context) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		wanted := map[string]Process{}
		if ctx.Err() == nil {
			var err error
			if wanted, err = s.dir.Wanted(); err != nil {
				s.log.Error("wishes are unreadable; leaving everything as it is", "error", err)
				wanted = nil
			}
		}
		if wanted != nil {
			s.reconcile(wanted)
		}
		if ctx.Err() != nil && len(s.running) == 0 {
			return nil
		}
		select {
		case e := <-s.exits:
			s.ended(e, wanted)
		case <-ticker.C: // ctx is looked at each time
		}
	}
}

func (s *supervisor) reconcile(wanted map[string]Process) {
	for name, c := range s.running {
		if p, ok := wanted[name]; !ok || p.Stopped || !slices.Equal(p.Command, c.process.Command) {
			s.stop(c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		p := wanted[name]
		if s.running[name] == nil && !p.Stopped && !time.Now().Before(s.due[name]) {
			s.start(p)
		}
	}
}

func (s *supervisor) start(p Process) {
	state := s.states[p.Name]
	state.Since = time.Now().UTC()
	cmd, err := s.spawn(p)
	if err != nil {
		s.log.Error("process cannot be started", "process", p.Name, "error", err)
		state.Exit = err.Error()
		s.postpone(p.Name, 0)
	} else {
		state.PID = cmd.Process.Pid
		s.running[p.Name] = &child{cmd: cmd, process: p}
		go func() { s.exits <- exit{p.Name, cmd.Wait()} }() // run takes every exit before it returns
	}
	s.record(p.Name, state)
}

func (s *supervisor) spawn(p Process) (*exec.Cmd, error) {
	output, err := openLog(s.dir.Log(p.Name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	cmd := exec.Command(p.Command[0], p.Command[1:]...) //nolint:noctx // it is stopped by signal, with patience
	cmd.Dir = string(s.dir)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is not meant for it
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return cmd, cmd.Start()
}

// maxLog is how large a process's log may be when the process starts; a larger one is put aside, in place of an older.
const maxLog = 8 << 20

func openLog(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && info.Size() > maxLog {
		if err := os.Rename(name, name+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// stop asks a process to end; when it does not, it is killed.
func (s *supervisor) stop(c *child) {
	if c.kill != nil {
		return
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	c.kill = time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
}

func (s *supervisor) ended(e exit, wanted map[string]Process) {
	c := s.running[e.name]
	delete(s.running, e.name)
	state := s.states[e.name]
	ran := time.Since(state.Since)
	state.PID, state.Since, state.Exit = 0, time.Now().UTC(), "exit status 0"
	if e.err != nil {
		state.Exit = e.err.Error()
	}
	if c.kill != nil {
		c.kill.Stop()
		s.pause[e.name] = 0
	} else {
		state.Restarts++
		s.log.Warn("process ended unasked", "process", e.name, "exit", state.Exit)
		s.postpone(e.name, ran)
	}
	if _, ok := wanted[e.name]; !ok && wanted != nil {
		delete(s.states, e.name)
		s.save()
		return
	}
	s.record(e.name, state)
}

// postpone decides when a process that ended unasked is started again: at once the first time, ever later after that.
func (s *supervisor) postpone(name string, ran time.Duration) {
	pause := s.pause[name]
	if ran > longRun {
		pause = 0
	}
	s.due[name] = time.Now().Add(pause)
	s.pause[name] = min(max(2*pause, firstPause), lastPause)
}

func (s *supervisor) record(name string, state State) {
	s.states[name] = state
	s.save()
}

func (s *supervisor) save() {
	if err := writeJSON(filepath.Join(string(s.dir), statusFile), s.states); err != nil {
		s.log.Error("status cannot be written", "error", err)
	}
}
