package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/audit"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/internal/rotation"
)

// hub is several replicas, which ask each other by HTTP.
type hub struct {
	dirs    map[string]string
	logs    map[string]*audit.Log
	servers map[string]*httptest.Server
	asker   *audit.Replicas
}

// newHub makes replicas of small files; the first of them is the one that is asked.
func newHub(t *testing.T, names ...string) *hub {
	t.Helper()
	h := &hub{map[string]string{}, map[string]*audit.Log{}, map[string]*httptest.Server{}, nil}
	for _, name := range names {
		h.dirs[name] = t.TempDir()
		h.logs[name] = open(t, options(h.dirs[name], func(o *audit.Options) { o.MaxBytes, o.Keep = 2000, 6 }))
		mux := http.NewServeMux()
		mux.HandleFunc("GET /{what}", h.logs[name].ServePeer)
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		h.servers[name] = server
	}
	h.ask(t, names[0])
	return h
}

// ask has one replica be the one that asks, as after its restart.
func (h *hub) ask(t *testing.T, name string) {
	t.Helper()
	asker, err := audit.NewReplicas(audit.ReplicasOptions{
		Own: h.logs[name], Self: name, Log: slog.New(slog.DiscardHandler),
		Members: func() map[string]string {
			all := map[string]string{}
			for name, server := range h.servers {
				all[name] = server.Listener.Addr().String()
			}
			return all
		},
		Ask: func(ctx context.Context, address, what, question string) ([]byte, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/"+what+"?q="+url.QueryEscape(question), nil)
			if err != nil {
				return nil, err
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				return nil, err
			}
			defer answer.Body.Close()
			var body bytes.Buffer
			if _, err = body.ReadFrom(answer.Body); err == nil && answer.StatusCode != http.StatusOK {
				err = errors.New(answer.Status)
			}
			return body.Bytes(), err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.asker = asker
}

var began = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

// at is a record of so many seconds after the others began.
func at(second int, person string) audit.Record {
	r := record(fmt.Sprintf("%s-%03d", person, second))
	r.Person, r.Time = person, began.Add(time.Duration(second)*time.Second)
	return r
}

// fills writes records of every second, in turn to each replica.
func (h *hub) fills(t *testing.T, seconds int) {
	t.Helper()
	names := slices.Sorted(maps.Keys(h.logs))
	for _, name := range names {
		stop := run(t, h.logs[name])
		for i := range seconds {
			if names[i%len(names)] == name {
				write(t, h.logs[name], at(i, []string{"ana", "bob"}[i%2]))
			}
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// list goes through all pages.
func (h *hub) list(t *testing.T, q v1.AuditQuery, between func()) (ids, missing []string) {
	t.Helper()
	for continued, pages := "", 0; ; pages++ {
		page, err := h.asker.List(t.Context(), q, continued)
		if err != nil || pages > 200 {
			t.Fatal(pages, err)
		}
		for _, e := range page.Items {
			ids = append(ids, e.Record.ID)
		}
		if continued = page.Next; continued == "" {
			return ids, page.Missing
		}
		if between != nil {
			between()
		}
	}
}

func expected(seconds int, keep func(i int) bool) (ids []string) {
	for i := range seconds {
		if keep(i) {
			ids = append(ids, fmt.Sprintf("%s-%03d", []string{"ana", "bob"}[i%2], i))
		}
	}
	slices.Reverse(ids)
	return ids
}

func TestPagesOfAllReplicasAreOneListTheNewestFirst(t *testing.T) {
	h := newHub(t, "hub-0", "hub-1", "hub-2")
	h.fills(t, 60)
	all := func(int) bool { return true }
	for name, c := range map[string]struct {
		query v1.AuditQuery
		keep  func(int) bool
	}{
		"all":      {v1.AuditQuery{}, all},
		"in pages": {v1.AuditQuery{Limit: 7}, all},
		"person":   {v1.AuditQuery{Person: "bob", Limit: 4}, func(i int) bool { return i%2 == 1 }},
		"nobody":   {v1.AuditQuery{Person: "bo"}, func(int) bool { return false }},
		"verb":     {v1.AuditQuery{Verb: "create"}, func(int) bool { return false }},
		"cluster":  {v1.AuditQuery{Cluster: "edge", Decision: "allowed"}, all},
		"since":    {v1.AuditQuery{Since: began.Add(40 * time.Second), Limit: 6}, func(i int) bool { return i >= 40 }},
		"until":    {v1.AuditQuery{Until: began.Add(40 * time.Second), Limit: 6}, func(i int) bool { return i < 40 }},
	} {
		t.Run(name, func(t *testing.T) {
			got, missing := h.list(t, c.query, nil)
			if diff := cmp.Diff(expected(60, c.keep), got); diff != "" || len(missing) > 0 {
				t.Error(missing, diff)
			}
		})
	}
}

// A reader may find a file under both names that it has while it is put aside.
func TestAFileThatIsPutAsideMeanwhileIsReadOnce(t *testing.T) {
	h := newHub(t, "hub-0")
	h.fills(t, 10)
	dir := h.logs["hub-0"].Dir
	want, newest := string(text(t, dir)), filepath.Join(dir, "audit.jsonl")
	aside, err := rotation.Files{Newest: newest}.Next(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(newest, aside); err != nil {
		t.Fatal(err)
	}
	got, continued := "", ""
	for chunks := 0; chunks == 0 || continued != ""; chunks++ {
		chunk, err := h.asker.Chunk(t.Context(), time.Time{}, continued)
		if err != nil || chunks > 100 {
			t.Fatal(chunks, err)
		}
		got, continued = got+string(chunk.Text), chunk.Next
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAFileThatIsDeletedWhileAPageIsOpenIsNoError(t *testing.T) {
	h := newHub(t, "hub-0")
	h.fills(t, 30)
	n := 0
	got, _ := h.list(t, v1.AuditQuery{Limit: 5}, func() {
		h.logs["hub-0"] = open(t, options(h.dirs["hub-0"], func(o *audit.Options) { o.MaxBytes, o.Keep = 2000, 6 }))
		stop := run(t, h.logs["hub-0"])
		for range 12 { // at least two more files
			n++
			write(t, h.logs["hub-0"], at(1000+n, "ana"))
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
	want := expected(30, func(int) bool { return true })
	if len(got) < 10 || len(got) == len(want) || !slices.Equal(got, want[:len(got)]) {
		t.Errorf("%d of %v", len(got), got)
	}
}

func TestReplicasThatCannotBeAskedAreNamed(t *testing.T) {
	h := newHub(t, "hub-0", "hub-1", "hub-2")
	h.fills(t, 30)
	continued, err := h.asker.List(t.Context(), v1.AuditQuery{Limit: 3}, "")
	if err != nil || len(continued.Missing) > 0 {
		t.Fatal(continued, err)
	}
	h.servers["hub-1"].Close()
	gone := h.servers["hub-1"]
	delete(h.servers, "hub-1") // its lease is forgotten
	for name, restarted := range map[string]bool{"seen before": false, "seen before the restart": true} {
		if restarted {
			h.ask(t, "hub-0")
		}
		got, missing := h.list(t, v1.AuditQuery{}, nil)
		if diff := cmp.Diff(expected(30, func(i int) bool { return i%3 != 1 }), got); diff != "" || !slices.Equal(missing, []string{"hub-1"}) {
			t.Error(name, missing, diff)
		}
	}
	page, err := h.asker.List(t.Context(), v1.AuditQuery{Limit: 3}, continued.Next)
	if err != nil || !slices.Equal(page.Missing, []string{"hub-1"}) {
		t.Error(page, err)
	}
	chunk, err := h.asker.Chunk(t.Context(), time.Time{}, "")
	for err == nil && chunk.Next != "" {
		chunk, err = h.asker.Chunk(t.Context(), time.Time{}, chunk.Next)
	}
	if err != nil || !slices.Equal(chunk.Missing, []string{"hub-1"}) {
		t.Error(chunk.Missing, err)
	}
	people, err := h.asker.People(t.Context())
	if err != nil || !slices.Equal(people.Missing, []string{"hub-1"}) {
		t.Error(people, err)
	}
	_ = gone
}

func TestChunksAreTheFilesByteByByte(t *testing.T) {
	h := newHub(t, "hub-0", "hub-1")
	h.fills(t, 40)
	got := map[string][]byte{}
	for continued := ""; ; {
		chunk, err := h.asker.Chunk(t.Context(), time.Time{}, continued)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(h.dirs[chunk.Replica], chunk.File))
		if err != nil {
			t.Fatal(err)
		}
		if before := bytes.Join(bytes.SplitAfter(content, []byte("\n"))[:chunk.Line], nil); !bytes.HasPrefix(content[len(before):], chunk.Text) {
			t.Errorf("%s: line %d of %s is not where it says", chunk.Replica, chunk.Line, chunk.File)
		}
		got[chunk.Replica] = append(got[chunk.Replica], chunk.Text...)
		if continued = chunk.Next; continued == "" {
			break
		}
	}
	for name, dir := range h.dirs {
		if want := text(t, dir); !bytes.Equal(got[name], want) {
			t.Errorf("%s: %d bytes, want %d", name, len(got[name]), len(want))
		}
	}
	late, err := h.asker.Chunk(t.Context(), began.Add(time.Hour), "") // whose lines may be late
	if err != nil || bytes.Count(late.Text, []byte("\n")) >= 20 || len(late.Text) == 0 {
		t.Errorf("%d bytes, %v", len(late.Text), err)
	}
}

func TestWhoDidSomethingLastIsToldWithHowFarTheRecordGoesBack(t *testing.T) {
	h := newHub(t, "hub-0", "hub-1")
	h.fills(t, 20)
	people, err := h.asker.People(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end := func(second int) time.Time { return began.Add(time.Duration(second)*time.Second + 1500) }
	want := &v1.AuditPeople{
		Items: []v1.AuditPerson{{Person: "bob", Last: end(19)}, {Person: "ana", Last: end(18)}}, Since: end(0), Missing: []string{},
	}
	if diff := cmp.Diff(want, people); diff != "" {
		t.Error(diff)
	}
	full, err := filepath.Glob(filepath.Join(h.dirs["hub-1"], "audit-*.jsonl"))
	if err != nil || len(full) == 0 || os.Remove(full[0]) != nil {
		t.Fatal(full, err)
	}
	if people, err = h.asker.People(t.Context()); err != nil || !people.Since.After(end(1)) {
		t.Errorf("%v, %v: hub-1 has no more what was before", people, err)
	}
}

func TestEntriesHoldALineByteByByte(t *testing.T) {
	for _, line := range []string{
		`{"id":"a<b>&c","prev":""}`, `{"id":"\u00e9 ",  "n": 1.0}`, "", "{", `{"id":"cut o`, "null", "\xff\xfe", `{} `, ` {}`, `{"a":1}{"a":2}`, "{\r}",
	} {
		e := audit.Entry{Replica: `hub "0"`, Line: []byte(line)}
		text := e.MarshalEntry()
		if !json.Valid(text) || bytes.ContainsRune(text, '\n') {
			t.Errorf("%q becomes %s", line, text)
		}
		back, ok, err := audit.ParseEntry(text)
		if err != nil || !ok || back.Replica != e.Replica || string(back.Line) != line {
			t.Errorf("%q comes back as %+v, %v, %v", line, back, ok, err)
		}
	}
	if _, ok, _ := audit.ParseEntry([]byte(`{"id":"a","prev":""}`)); ok {
		t.Error("a line of a file is taken for an entry")
	}
	changed := (&audit.Entry{Replica: "hub", Line: []byte(`{"id":"a"}`)}).MarshalEntry()
	if _, ok, err := audit.ParseEntry(bytes.Replace(changed, []byte(`"a"`), []byte(`"b"`), 1)); !ok || !errors.Is(err, audit.ErrHash) {
		t.Errorf("a changed record: %v, %v", ok, err)
	}
}

func TestLinesMayComeAgainFromSinksAlone(t *testing.T) {
	dir := t.TempDir()
	l := open(t, options(dir))
	stop := run(t, l)
	for i := range 6 {
		write(t, l, record(fmt.Sprint(i)))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text(t, dir)), []byte("\n"))
	again := slices.Concat(lines[:4], lines[2:])
	for _, tolerant := range []bool{true, false} {
		chain := audit.Chain{Again: tolerant}
		var err error
		for _, line := range again {
			if err = chain.Add(line); err != nil {
				break
			}
		}
		if tolerant != (err == nil) || tolerant && (chain.Lines != 6 || chain.Doubles != 2 || !chain.Whole) {
			t.Errorf("%+v, %v", chain, err)
		}
	}
	gap := audit.Chain{Again: true}
	if err := errors.Join(gap.Add(lines[0]), gap.Add(lines[1]), gap.Add(lines[3])); !errors.Is(err, audit.ErrBroken) {
		t.Errorf("a gap: %v", err)
	}
}

func TestTokensOfOthersAreRefused(t *testing.T) {
	h := newHub(t, "hub-0")
	h.fills(t, 5)
	for _, token := range []string{"x", "!", "e30x", strings.Repeat("A", 20_000)} {
		if _, err := h.asker.List(t.Context(), v1.AuditQuery{}, token); !errors.As(err, new(*paging.Error)) {
			t.Errorf("list of %.20q: %v", token, err)
		}
		if _, err := h.asker.Chunk(t.Context(), time.Time{}, token); !errors.As(err, new(*paging.Error)) {
			t.Errorf("chunk of %.20q: %v", token, err)
		}
	}
}

// FuzzReaders gives readers files and tokens that nobody wrote.
func FuzzReaders(f *testing.F) {
	f.Add([]byte(`{"id":"a","time":"2026-11-22T10:00:00Z","stage":"end","prev":""}`+"\n{\n\n"), "e30", []byte(`{"replica":"a","hash":"b","torn":"/w=="}`))
	f.Add([]byte("\n\n\xff"), "eyJyIjp7Imh1Yi0wIjp7ImYiOiJ4IiwibyI6LTV9fX0", []byte(`{}`))
	f.Add([]byte("{}\n"), "eyJsIjpbImh1Yi0wIl0sImYiOnsibyI6LTEsIm4iOi0zfX0", []byte(`{"replica":"a","hash":"b","record":null}`))
	f.Fuzz(func(t *testing.T, content []byte, token string, entry []byte) {
		content = content[:min(len(content), 64<<10)]
		dir := t.TempDir()
		l := open(t, options(dir))
		if err := os.WriteFile(filepath.Join(dir, "audit.jsonl"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := audit.NewReplicas(audit.ReplicasOptions{
			Own: l, Self: "hub-0", Members: func() map[string]string { return nil }, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, continued := range []string{"", token} {
			for range 3 {
				list, err := r.List(t.Context(), v1.AuditQuery{Limit: 2}, continued)
				if err != nil {
					break
				}
				if continued = list.Next; continued == "" {
					break
				}
			}
		}
		var all []byte
		for continued := ""; ; {
			chunk, err := r.Chunk(t.Context(), time.Time{}, continued)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, chunk.Text...)
			if continued = chunk.Next; continued == "" {
				break
			}
		}
		if want := content[:bytes.LastIndexByte(content, '\n')+1]; !bytes.Equal(all, want) {
			t.Fatalf("%q is read as %q", want, all)
		}
		_, _ = r.Chunk(t.Context(), time.Time{}, token)
		if _, err := r.People(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e, ok, err := audit.ParseEntry(entry); ok && err == nil {
			back, ok, err := audit.ParseEntry(e.MarshalEntry())
			if !ok || err != nil || !bytes.Equal(back.Line, e.Line) {
				t.Fatalf("%q comes back as %q", e.Line, back.Line)
			}
		}
	})
}
