package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/principal"
)

const (
	// maxBody bounds what is sent with an action, in bytes.
	maxBody = 64 << 10
	// maxAsked is how many agents are asked at once, maxNamed how many of those that are not there are named.
	maxAsked = 64
	maxNamed = 50
	// syncTime is how long the asking of all agents may take.
	syncTime = 10 * time.Second
)

// look answers at once: what came of it stands in the source's last fetch.
func (a *API) look(w http.ResponseWriter, r *http.Request, _ principal.Person) {
	name := own(r.PathValue("name"))
	if !a.Look(name) {
		missing(w, "source", name)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (a *API) syncCluster(w http.ResponseWriter, r *http.Request, _ principal.Person) {
	name := r.PathValue("name")
	body, ok := bodyOf[v1.SyncRequest](w, r)
	if !ok {
		return
	}
	if _, there := a.View.Cluster(name); !there {
		missing(w, "cluster", name)
		return
	}
	for _, service := range body.Services {
		if _, there := a.View.Deployment(name, service); !there {
			missing(w, "service", service)
			return
		}
	}
	a.sync(w, r, []string{name}, body.Services)
}

func (a *API) syncService(w http.ResponseWriter, r *http.Request, _ principal.Person) {
	name := r.PathValue("name")
	body, ok := bodyOf[v1.SyncRequest](w, r)
	if !ok {
		return
	}
	targets, there := a.View.Targets(name)
	if !there {
		missing(w, "service", name)
		return
	}
	if len(body.Clusters) > 0 {
		for _, cluster := range body.Clusters {
			if !slices.Contains(targets, cluster) {
				refuse(w, http.StatusNotFound, v1.Error{
					Message: "service " + strconv.Quote(name) + " is not meant for cluster " + strconv.Quote(cluster),
					Fix:     "plural service get " + name,
				})
				return
			}
		}
		targets = body.Clusters
	}
	a.sync(w, r, targets, []string{name})
}

// sync asks agents, and answers when all were asked. What comes of it shows in their reports.
func (a *API) sync(w http.ResponseWriter, r *http.Request, clusters, services []string) {
	if a.Sync == nil {
		refuse(w, http.StatusForbidden, v1.Error{Message: "this hub cannot reach agents", Fix: "wait: they look by themselves"})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), syncTime)
	defer cancel()
	out := v1.Synced{Asked: len(clusters)}
	var mu sync.Mutex // guards out
	var group errgroup.Group
	group.SetLimit(maxAsked)
	for _, cluster := range clusters {
		group.Go(func() error {
			if a.Sync(ctx, cluster, services) == nil {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if out.Absent++; len(out.Names) < maxNamed {
				out.Names = append(out.Names, cluster)
			}
			return nil
		})
	}
	_ = group.Wait() // none fails
	slices.Sort(out.Names)
	reply(w, http.StatusAccepted, out)
}

// bodyOf reads a request's body, which may be empty. When it is wrong, that has been answered.
func bodyOf[T any](w http.ResponseWriter, r *http.Request) (body T, ok bool) {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	decoder.UseNumber() // of any value, so that it stays as it was sent
	err := decoder.Decode(&body)
	if errors.Is(err, io.EOF) {
		return body, true
	}
	if err == nil && decoder.More() {
		err = errors.New("more than one value")
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, v1.Error{Message: "read the request: " + err.Error(), Fix: "send one JSON object, or nothing"})
		return body, false
	}
	return body, true
}
