package service

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/ui"
)

func draw(objects []v1.Object) string {
	var b strings.Builder
	for _, row := range branches("edge-1", objects, reasons{}, time.Unix(0, 0)) {
		b.WriteString(row[0] + "\n")
	}
	return b.String()
}

func TestATreeHangsObjectsBelowTheirOwners(t *testing.T) {
	object := func(uid, kind, name, owner string) v1.Object {
		return v1.Object{UID: uid, Kind: kind, Name: name, Owner: owner, Namespace: "web"}
	}
	got := draw([]v1.Object{
		object("p2", "Pod", "web-b", "r"), object("p1", "Pod", "web-a", "r"), object("r", "ReplicaSet", "web", "d"),
		object("d", "Deployment", "web", ""), object("s", "Service", "web", ""),
		object("o", "Job", "hidden-owner", "somebody"),
		{UID: "c", Kind: "ClusterRole", Name: "web"},
	})
	want := `├─ ClusterRole/web
├─ Deployment/web (web)
│  └─ ReplicaSet/web (web)
│     ├─ Pod/web-a (web)
│     └─ Pod/web-b (web)
├─ Job/hidden-owner (web)
└─ Service/web (web)
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestATreeShowsEachObjectOnceWhoeverOwnsIt(t *testing.T) {
	circle := []v1.Object{{UID: "a", Kind: "A", Owner: "b"}, {UID: "b", Kind: "B", Owner: "a"}, {UID: "c", Kind: "C", Owner: "c"}}
	if got := draw(circle); strings.Count(got, "\n") != 3 {
		t.Errorf("got\n%s", got)
	}
}

func TestALongChainGrowsDownNotRight(t *testing.T) {
	objects := make([]v1.Object, 20_000)
	for i := range objects {
		objects[i] = v1.Object{UID: strings.Repeat("x", i%7) + string(rune('0'+i)), Kind: "K"}
		if i > 0 {
			objects[i].Owner = objects[i-1].UID
		}
	}
	for _, row := range branches("edge-1", objects, reasons{}, time.Unix(0, 0)) {
		if len(row[0]) > 100 {
			t.Fatalf("a row of %d bytes", len(row[0]))
		}
	}
}

func TestALongReasonIsToldOnceInATree(t *testing.T) {
	const long = `container web: ImagePullBackOff: Back-off pulling image "shop/web:9"`
	pod := func(name, message string) v1.Object {
		return v1.Object{UID: name, Kind: "Pod", Name: name, Health: v1.ObjectDegraded, Message: message}
	}
	told := reasons{}
	var got []string
	for _, cluster := range []string{"edge-1", "edge-2"} {
		for _, row := range branches(cluster, []v1.Object{pod("a", long), pod("b", long), pod("c", "it ended")}, told, time.Unix(0, 0)) {
			got = append(got, row[3])
		}
	}
	want := []string{long, "as Pod/a", "it ended", "as Pod/a on edge-1", "as Pod/a on edge-1", "it ended"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	left := []ui.Problem{
		{Where: "edge-3", Message: "it does not answer"},
		{Where: "edge-4", Message: "it is not connected"},
		{Where: "edge-5", Message: "it does not answer"},
	}
	if lines := lines(left); !slices.Equal(lines, []string{"edge-3, edge-5: it does not answer", "edge-4: it is not connected"}) {
		t.Errorf("got %q", lines)
	}
}

func TestNobodyWaitsLongForAClusterThatDoesNotAnswerItsOwnAgent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = v1.List[v1.Object]{}
		switch {
		case r.URL.Path == "/v1/services/web":
			answer = v1.Service{Name: "web", Deployments: []v1.Deployment{
				{Service: "web", Cluster: "edge-1"}, {Service: "web", Cluster: "edge-2", Unreached: true, Message: "it does not answer"},
			}}
		case strings.Contains(r.URL.Path, "/edge-2/"):
			select {
			case <-r.Context().Done():
			case <-time.After(10 * hurried):
			}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	hub, err := client.New(server.URL, "", "test")
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	where, _, lacks, err := onEach(t.Context(), hub, "web", nil, hub.ServiceObjects)
	if err != nil || !slices.Equal(where, []string{"edge-1"}) || !slices.Equal(lacks, []string{"edge-2: it does not answer"}) {
		t.Errorf("%v, %v, %v", where, lacks, err)
	}
	if took := time.Since(begun); took > 3*hurried {
		t.Errorf("it took %s", took)
	}
}
