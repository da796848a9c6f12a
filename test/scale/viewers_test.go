package scale

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/workspace/fleet"
)

const (
	// viewerRows is how many rows are in view of a page with those around it, and viewerWindow how many one answer brings.
	viewerRows, viewerWindow = 50, 100
	// viewerRest is the least time between two readings of a window.
	viewerRest = 2 * time.Second
)

// viewers commits so many people who may look, and gives their tokens.
func (f *simulated) viewers(n int) (tokens []string) {
	f.t.Helper()
	text := strings.Builder{}
	text.WriteString("apiVersion: plural.sh/v1alpha1\nkind: Role\nmetadata: {name: viewer}\nspec: {fleet: [view]}\n" +
		"---\napiVersion: plural.sh/v1alpha1\nkind: RoleBinding\nmetadata: {name: viewers}\nspec: {role: viewer, groups: [viewers]}\n")
	for i := range n {
		token := fleet.NewToken()
		tokens = append(tokens, token)
		fmt.Fprintf(&text, "---\napiVersion: plural.sh/v1alpha1\nkind: User\nmetadata: {name: viewer-%02d}\n"+
			"spec: {groups: [viewers], tokens: [{name: t, hash: %q}]}\n", i, fleet.HashToken(token))
	}
	work := filepath.Join(f.dir, "fleet")
	f.write(filepath.Join(work, "access", "viewers.yaml"), []byte(text.String()))
	gitIn(f.t, work, "add", "-A")
	gitIn(f.t, work, "commit", "-qm", "Let people look")
	gitIn(f.t, work, "push", "-q", "origin", "HEAD:main")
	return tokens
}

// watched measures what people who look cost the hub while the fleet changes: each sees other rows, and does what the page does.
func (f *simulated) watched(b *testing.B, tokens []string) {
	b.Helper()
	cores := func() float64 {
		pids, began := []int{f.hub.Process.Pid}, time.Now()
		before := f.cpu(pids)
		<-time.After(viewersWatch)
		return (f.cpu(pids) - before) / time.Since(began).Seconds()
	}
	without := cores()
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	viewers := make([]*viewer, len(tokens))
	for i, token := range tokens {
		stages, regions := []string{"dev", "prod"}, 7
		v := &viewer{f: f, token: token, filter: fmt.Sprintf("stage:%s region:r%d c-0%d", stages[i%2], i/2%regions, i/2/regions)}
		v.http = &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: f.roots, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true,
		}}
		viewers[i] = v
		all.Go(func() {
			defer v.http.CloseIdleConnections()
			if err := v.look(ctx); err != nil && ctx.Err() == nil {
				b.Errorf("a viewer with the filter %s: %v", v.filter, err)
			}
		})
	}
	<-time.After(2 * viewerRest) // all have come
	with := cores()
	cancel()
	all.Wait()
	var read, unchanged, told int
	for _, v := range viewers {
		read, unchanged, told = read+v.read, unchanged+v.unchanged, told+v.told
	}
	b.Logf("the hub: %.3f cores without viewers, %.3f with %d; they read %d windows, %d of which had not changed, and were told of %d changes",
		without, with, len(viewers), read, unchanged, told)
	figure("page_hub_core_per_viewer", max(0, with-without)/float64(len(viewers)), "cores", 0.01)
}

// viewer is what a page does at the hub, without the page.
type viewer struct {
	f             *simulated
	http          *http.Client
	token, filter string

	tag                   string
	read, unchanged, told int
}

// look reads a window, and follows its rows and the fleet's figures; when these change it reads the window again.
func (v *viewer) look(ctx context.Context) error {
	names, since, err := v.window(ctx)
	if err != nil {
		return err
	}
	response, err := v.ask(ctx, "/v1/stream", url.Values{
		"kind": {string(v1.ChangedSummary), string(v1.ChangedDeployments)}, "item": names, "since": {since},
	})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	read := time.Now()
	for lines := bufio.NewReader(response.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		switch strings.TrimSpace(line) {
		case "event: " + string(v1.ChangedDeployments):
			v.told++
		case "event: " + string(v1.ChangedSummary):
			if time.Since(read) < viewerRest {
				continue
			}
			read = time.Now()
			if _, _, err := v.window(ctx); err != nil {
				return err
			}
		}
	}
}

func (v *viewer) window(ctx context.Context) (names []string, since string, err error) {
	response, err := v.ask(ctx, "/v1/deployments",
		url.Values{"filter": {v.filter}, "sort": {"-health,cluster,service"}, "limit": {fmt.Sprint(viewerWindow)}})
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	v.read++
	if response.StatusCode == http.StatusNotModified {
		v.unchanged++
		return nil, "", nil
	}
	v.tag = response.Header.Get("ETag")
	body, err := io.ReadAll(response.Body)
	if err != nil || v.read > 1 {
		return nil, "", err
	}
	var list v1.List[v1.Deployment]
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, "", err
	}
	for _, d := range list.Items[:min(viewerRows, len(list.Items))] {
		names = append(names, d.Cluster+"/"+d.Service)
	}
	return names, list.Since, nil
}

func (v *viewer) ask(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.f.url+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+v.token)
	if v.tag != "" && path != "/v1/stream" {
		request.Header.Set("If-None-Match", v.tag)
	}
	response, err := v.http.Do(request)
	if err == nil && response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNotModified {
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s: %s", response.Status, body)
	}
	return response, err
}
