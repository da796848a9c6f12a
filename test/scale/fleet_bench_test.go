package scale

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
)

// fleetClusters is for trying out: the names of figures go with it.
var fleetClusters = flag.Int("fleet.clusters", 10_000, "how many clusters the simulated fleet has")

const (
	fleetServices = 10
	// fleetRest is the agents' wait between two polls and the longest silence of theirs: long, so that they leave the processors to
	// what is measured, and not so long that their connections end of idleness: each change would need another one then.
	fleetRest = 2 * time.Minute
	// changesLast is how long the simulator has the fleet change when it is told to.
	changesLast = 90 * time.Second
	// fleetPatience bounds each wait for a fleet.
	fleetPatience = 10 * time.Minute
)

// simulated is a fleet at work: `plural hub serve` on an installation repo that was made up, and `plural sim`, whose agents poll,
// download, verify and report over TLS. Both are processes of their own. All is quiet until the simulator is told to change things.
type simulated struct {
	*serving
	url, token string
	hub        *exec.Cmd
	http       *http.Client

	sim   *exec.Cmd
	enter io.WriteCloser
	said  chan string // its words
	shown *bytes.Buffer
}

// newSimulated starts one; committed may commit to its installation repo before the hub sees it.
func newSimulated(b *testing.B, committed ...func(*simulated)) *simulated {
	b.Helper()
	f := &simulated{serving: newServing(b), said: make(chan string, 1000), shown: new(bytes.Buffer)}
	program := plural(b)
	address := f.address()
	f.url = "https://" + address
	fleet := []string{"--hub", f.url, "--clusters", strconv.Itoa(*fleetClusters), "--services", strconv.Itoa(fleetServices), "--seed", "1"}
	made := exec.CommandContext(b.Context(), program, append([]string{"sim", "init", f.dir}, fleet...)...)
	if out, err := made.CombinedOutput(); err != nil {
		b.Fatalf("plural sim init: %v\n%s", err, out)
	}
	for _, each := range committed {
		each(f)
	}
	data := filepath.Join(f.dir, "data")
	f.hub = f.start(address, exec.Command(program, "hub", "serve", "--listen", address, "--url", f.url,
		"--repo", "file://"+filepath.Join(f.dir, "fleet.git"), "--allow-file-sources", "--allow-loopback", "--interval", "1h",
		"--data", data,
		"--poll-interval", fleetRest.String(), "--report-interval", fleetRest.String(), "--tls-cert", f.cert, "--tls-key", f.key))
	f.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.roots, MinVersion: tls.VersionTLS13}}}
	f.await("the hub serves the fleet", func() bool {
		response, err := f.http.Get(f.url + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	token, err := os.ReadFile(filepath.Join(data, "token"))
	f.must(err)
	f.token = strings.TrimSpace(string(token))

	f.sim = exec.Command(program, append([]string{
		"sim", "run", "--repo", filepath.Join(f.dir, "fleet"), "--ca", f.cert, "--poll-interval", fleetRest.String(), "--ramp", "60s",
		"--scenario", "changes", "--changes", strconv.Itoa(consoleUpdates), "--for", changesLast.String(), "--step", "-o", "json",
	}, fleet...)...)
	f.sim.Env = append(os.Environ(), "PLURAL_TOKEN="+f.token)
	f.sim.Stdout = f.shown
	f.enter, err = f.sim.StdinPipe()
	f.must(err)
	words, err := f.sim.StderrPipe()
	f.must(err)
	f.must(f.sim.Start())
	b.Cleanup(func() {
		_ = f.sim.Process.Kill() // it may have ended
		_ = f.sim.Wait()
	})
	go func() { // ends with the process
		defer close(f.said)
		for lines := bufio.NewScanner(words); lines.Scan(); {
			f.said <- lines.Text()
		}
	}()
	f.hear("enter plays changes")
	c, err := client.New(f.url, f.token, "bench")
	f.must(err)
	pem, err := os.ReadFile(f.cert)
	f.must(err)
	f.must(c.Trust(pem))
	f.await("every service is reported as healthy", func() bool {
		summary, err := c.Summary(b.Context())
		return err == nil && summary.Deployments[v1.Healthy] == *fleetClusters*fleetServices
	})
	return f
}

// await asks each tenth of a second.
func (f *simulated) await(what string, yes func() bool) {
	f.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(fleetPatience); !yes(); <-tick.C {
		if time.Now().After(deadline) {
			f.t.Fatalf("never: %s", what)
		}
	}
}

// hear waits until the simulator says something.
func (f *simulated) hear(what string) {
	f.t.Helper()
	var before []string
	for deadline := time.After(fleetPatience); ; {
		select {
		case line, ok := <-f.said:
			if !ok {
				f.t.Fatalf("the simulator never says %q, but\n%s", what, strings.Join(before, "\n"))
			}
			if line == what {
				return
			}
			before = append(before, line)
		case <-deadline:
			f.t.Fatalf("the simulator does not say %q, but\n%s", what, strings.Join(before, "\n"))
		}
	}
}

// change has the simulator begin to change things.
func (f *simulated) change() {
	f.t.Helper()
	_, err := io.WriteString(f.enter, "\n")
	f.must(err)
	f.hear("playing changes")
}

// changed waits until the simulator ends, and gives what it showed of the changes.
func (f *simulated) changed() played {
	f.t.Helper()
	for range f.said { // until its end
	}
	f.must(f.sim.Wait())
	var list struct{ Items []played }
	if err := json.Unmarshal(f.shown.Bytes(), &list); err != nil || len(list.Items) != 2 {
		f.t.Fatalf("plural sim: %v\n%s", err, f.shown.Bytes())
	}
	return list.Items[1]
}

// follow counts the deployments that the hub tells a follower, until ctx ends.
func (f *simulated) follow(ctx context.Context, rows *atomic.Int64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/v1/stream?kind="+string(v1.ChangedDeployments), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+f.token)
	response, err := f.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("follow the hub: %s", response.Status)
	}
	for read := bufio.NewReader(response.Body); ; {
		line, err := read.ReadSlice('\n')
		switch {
		case bytes.Contains(line, []byte("event: "+v1.Reset)):
			return fmt.Errorf("the hub forgot changes before they were read")
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
			rows.Add(int64(bytes.Count(line, []byte(`"appliedKey":`))))
		case ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("follow the hub: %w", err)
		}
	}
}

// read asks turn by turn, going on to the second page of each list, and gives the 99th percentile.
func (f *simulated) read(b *testing.B, path string, queries ...url.Values) float64 {
	b.Helper()
	var took []time.Duration
	for turn := range listTurns {
		query := queries[turn%len(queries)]
		began := time.Now()
		page := f.get(b, path+"?"+query.Encode())
		took = append(took, time.Since(began))
		if page.Next == "" {
			continue
		}
		next := url.Values{"continue": {page.Next}}
		for name, value := range query {
			next[name] = value
		}
		began = time.Now()
		f.get(b, path+"?"+next.Encode())
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.Logf("%d answers of %s: median %s, p99 %s, worst %s", len(took), path, took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	return ms(took[len(took)*99/100])
}

func (f *simulated) get(b *testing.B, path string) v1.List[json.RawMessage] {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, f.url+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+f.token)
	response, err := f.http.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || len(body) >= 100_000 {
		b.Fatalf("%s: %s, %d bytes, %v", path, response.Status, len(body), err)
	}
	var page v1.List[json.RawMessage]
	if err := json.Unmarshal(body, &page); err != nil {
		b.Fatal(err)
	}
	return page
}

// plural is the program that is measured.
func plural(b *testing.B) string {
	b.Helper()
	program, err := filepath.Abs("../../bin/plural")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		b.Skipf("SKIPPED: bin/plural is not built: run make plural first: %v", err)
	}
	return program
}
