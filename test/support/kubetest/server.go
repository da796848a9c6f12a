package kubetest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	pollInterval = 20 * time.Millisecond
	// startTimeout is for a machine where other test processes start theirs as well;
	// an idle one takes 3 s.
	startTimeout = 2 * time.Minute
	// logLimit is how much of the log an error carries.
	logLimit = 8 << 10
)

// sharedServer starts the API server of this test process, once.
var sharedServer = sync.OnceValues(func() (*server, error) { return startServer() })

// server is a running localkube.
type server struct {
	config     *rest.Config
	kubeconfig string
	// lifeline is the write end of localkube's standard input. The system closes it with this process;
	// it is kept here so that the garbage collector does not close it earlier.
	lifeline io.Closer
}

// startServer runs localkube with more flags.
func startServer(flags ...string) (*server, error) {
	program, err := findProgram()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kubetest-")
	if err != nil {
		return nil, fmt.Errorf("create folder: %w", err)
	}
	log, err := unnamedFile()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(program, append([]string{"run", "--dir", dir, "--name", "kubetest", "--ephemeral", "--with-parent"}, flags...)...)
	cmd.Stderr = log
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("open standard input of %s: %w", program, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	if err := awaitReady(cmd, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("run %s: %w\n%s", program, err, tail(log)), lifeline.Close())
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read kubeconfig: %w", err), lifeline.Close())
	}
	config.QPS = -1 // no waiting on this side
	return &server{config: config, kubeconfig: kubeconfig, lifeline: lifeline}, nil
}

// unnamedFile returns a file that vanishes with the last process that has it open. A pipe would
// not do: localkube writes its last lines when its reader is gone, and would die of that.
func unnamedFile() (*os.File, error) {
	file, err := os.CreateTemp("", "kubetest-log-")
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("unlink log: %w", err), file.Close())
	}
	return file, nil
}

// awaitReady waits until localkube has written its readiness file, or has ended.
func awaitReady(cmd *exec.Cmd, dir string) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // lasts as long as localkube, that is as this process
	deadline := time.After(startTimeout)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		_, err := os.Stat(filepath.Join(dir, "ready.json"))
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look for readiness file: %w", err)
		}
		select {
		case err := <-ended:
			return fmt.Errorf("ended before it was ready: %w", err)
		case <-deadline:
			return fmt.Errorf("not ready after %s", startTimeout)
		case <-ticker.C:
		}
	}
}

// tail reads the end of the log; what cannot be read is left out of the message it is for.
func tail(log *os.File) string {
	info, err := log.Stat()
	if err != nil {
		return ""
	}
	content, err := io.ReadAll(io.NewSectionReader(log, max(0, info.Size()-logLimit), logLimit))
	if err != nil {
		return ""
	}
	return string(content)
}
