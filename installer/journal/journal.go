// Package journal owns the journal of steps that runs on this machine began and ended.
//
// It refuses to know what the tasks are, and what an outcome means. It keeps no secret: an outcome that has some comes sealed.
//
// The journal is a file of JSON lines, one for each beginning and each end, flushed to the disk before Begin or End returns: so
// whoever finds a beginning without an end knows that a process ended in between. A process that is killed may leave half a
// line, which never counted, and is cut off when the journal is opened again. A run is forgotten by writing the file anew
// beside the old one, which it then replaces.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	fileName = "journal.jsonl"
	// guardName is the file that is locked while a process has the journal: the journal itself is replaced at times.
	guardName = "journal.lock"
	// maxLine bounds a line, maxFile the journal, in bytes.
	maxLine = 64 << 20
	maxFile = 1 << 30
)

// line is one beginning or one end.
type line struct {
	At      time.Time       `json:"at"`
	Run     string          `json:"run"`
	Task    string          `json:"task"`
	Event   event           `json:"event"`
	Outcome json.RawMessage `json:"outcome,omitempty"`
}

type event string

const (
	began event = "begin"
	ended event = "end"
)

// BusyError says that another process has the journal.
type BusyError struct{ File string }

func (e *BusyError) Error() string { return fmt.Sprintf("another process works with %s", e.File) }

// Fix is what can be done about it.
func (e *BusyError) Fix() string { return "wait for it to end" }

// CorruptError says that something else than this program has written into the journal.
type CorruptError struct {
	File string
	Line int
	Err  error
}

func (e *CorruptError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

// Fix is what can be done about it.
func (e *CorruptError) Fix() string {
	return "move the file away: what it says of earlier runs is lost, and the steps that they did not record are done once more"
}

// Unwrap is what is wrong with the line.
func (e *CorruptError) Unwrap() error { return e.Err }

// Journal is an open journal. It is safe for concurrent use.
type Journal struct {
	path  string
	guard *os.File

	mu    sync.Mutex // guards all below
	file  *os.File
	lines []line
	whole int64 // how long the part of the file is that counts
}

// Open opens the journal in dir, and makes it when there is none. It is this process's until Close: to another one the error is
// a *BusyError.
func Open(dir string) (*Journal, error) {
	j := &Journal{path: filepath.Join(dir, fileName)}
	if err := j.open(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal: %w", err), j.Close())
	}
	return j, nil
}

func (j *Journal) open(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		j.guard, err = os.OpenFile(filepath.Join(dir, guardName), os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err == nil {
		err = syscall.Flock(int(j.guard.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return &BusyError{j.path}
	}
	if err == nil {
		j.file, err = os.OpenFile(j.path, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err == nil {
		err = j.load()
	}
	if err == nil {
		err = j.cut()
	}
	if err == nil {
		err = syncFolder(dir)
	}
	return err
}

// load reads the file.
func (j *Journal) load() error {
	info, err := j.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > maxFile {
		return &CorruptError{File: j.path, Line: 1, Err: fmt.Errorf("the file is larger than %d MiB", maxFile>>20)}
	}
	j.lines, j.whole, err = read(j.file)
	if corrupt := (*CorruptError)(nil); errors.As(err, &corrupt) {
		corrupt.File = j.path
	}
	return err
}

// cut takes off what follows the part of the file that counts.
func (j *Journal) cut() error {
	if err := j.file.Truncate(j.whole); err != nil {
		return err
	}
	_, err := j.file.Seek(j.whole, io.SeekStart)
	return err
}

// read takes lines up to the first that has no end, or that has one and is the last and cannot be read: some file systems give
// the end of a file that a crash cut off zeros, or what stood on the disk before.
func read(from io.Reader) (lines []line, whole int64, err error) {
	r := bufio.NewReaderSize(from, 64<<10)
	for number := 1; ; number++ {
		text, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return lines, whole, nil
		}
		if err != nil {
			return nil, 0, &CorruptError{Line: number, Err: err}
		}
		l, err := parse(text)
		if err != nil {
			if _, more := r.Peek(1); errors.Is(more, io.EOF) {
				return lines, whole, nil
			}
			return nil, 0, &CorruptError{Line: number, Err: err}
		}
		lines = append(lines, l)
		whole += int64(len(text)) + 1
	}
}

// readLine is the next line without its end; io.EOF when it has none.
func readLine(r *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(text)+len(part) > maxLine {
			return nil, fmt.Errorf("the line is longer than %d MiB", maxLine>>20)
		}
		text = append(text, part...)
		switch {
		case err == nil:
			return text[:len(text)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func parse(text []byte) (line, error) {
	var l line
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&l); err != nil {
		return l, err
	}
	if decoder.More() {
		return l, errors.New("something follows the entry")
	}
	if l.Run == "" || l.Task == "" || l.Event != began && l.Event != ended {
		return l, errors.New("this is no entry of a journal")
	}
	return l, nil
}

// Begin writes down that a task begins. It returns when that is on disk.
func (j *Journal) Begin(run, task string) error {
	return j.append(line{Run: run, Task: task, Event: began})
}

// End writes down that a task ended, and how it came out. It returns when that is on disk.
func (j *Journal) End(run, task string, outcome json.RawMessage) error {
	return j.append(line{Run: run, Task: task, Event: ended, Outcome: outcome})
}

func (j *Journal) append(l line) error {
	l.At = time.Now().UTC().Truncate(time.Millisecond)
	text, err := encode(l)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return fmt.Errorf("write journal: %w", os.ErrClosed)
	}
	_, err = j.file.Write(text)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil { // a full disk took half a line
		return errors.Join(fmt.Errorf("write journal: %w", err), j.cut())
	}
	j.lines = append(j.lines, l)
	j.whole += int64(len(text))
	return nil
}

func encode(l line) ([]byte, error) {
	text, err := json.Marshal(l)
	if err == nil {
		_, err = parse(text)
	}
	if err == nil && len(text) >= maxLine {
		err = fmt.Errorf("the outcome is larger than %d MiB", maxLine>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("write journal: task %q of run %q: %w", l.Task, l.Run, err)
	}
	return append(text, '\n'), nil
}

// Finished is how the tasks of a run came out that have ended, and not begun again since.
func (j *Journal) Finished(run string) map[string]json.RawMessage {
	j.mu.Lock()
	defer j.mu.Unlock()
	outcomes := map[string]json.RawMessage{}
	for _, l := range j.lines {
		switch {
		case l.Run != run:
		case l.Event == ended:
			outcomes[l.Task] = l.Outcome
		default:
			delete(outcomes, l.Task)
		}
	}
	return outcomes
}

// Runs are the runs that the journal knows of, the oldest first.
func (j *Journal) Runs() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var runs []string
	for _, l := range j.lines {
		if !slices.Contains(runs, l.Run) {
			runs = append(runs, l.Run)
		}
	}
	return runs
}

// Clear forgets a run. Until it returns, all of the run is there after a crash, or nothing.
func (j *Journal) Clear(run string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return fmt.Errorf("clear journal: %w", os.ErrClosed)
	}
	rest := slices.DeleteFunc(slices.Clone(j.lines), func(l line) bool { return l.Run == run })
	if len(rest) == len(j.lines) {
		return nil
	}
	file, length, err := j.rewrite(rest)
	if file != nil {
		err = errors.Join(err, j.file.Close())
		j.file, j.lines, j.whole = file, rest, length
	}
	if err != nil {
		return fmt.Errorf("clear journal: %w", err)
	}
	return nil
}

// rewrite puts a file with these lines in the journal's place, which is done unless it is nil.
func (j *Journal) rewrite(lines []line) (file *os.File, length int64, err error) {
	var all bytes.Buffer
	for _, l := range lines {
		text, err := encode(l)
		if err != nil {
			return nil, 0, err
		}
		all.Write(text)
	}
	fresh := j.path + ".new"
	if file, err = os.OpenFile(fresh, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return nil, 0, err
	}
	_, err = file.Write(all.Bytes())
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(fresh, j.path)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, int64(all.Len()), syncFolder(filepath.Dir(j.path))
}

// syncFolder flushes a folder's list of names.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Close lets other processes open the journal. It may be called twice.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, file := range []*os.File{j.file, j.guard} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	j.file, j.guard = nil, nil
	return errors.Join(errs...)
}
