package live

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	v1 "github.com/pluralsh/plural/api/v1"
)

const (
	// fieldManager is whose changes the cluster says these are.
	fieldManager = "plural-hub"
	// acting bounds one change, and maxActing how many are under way at once.
	acting    = 20 * time.Second
	maxActing = 4
	// maxObject bounds what is read of one object's metadata, in bytes.
	maxObject = 2 << 20
	// applier is the manager as which agents apply what the fleet says, and serviceLabel names on an object the service that it
	// is applied for.
	applier      = "plural"
	serviceLabel = "plural.sh/service"
)

// restartable is what a restart is of: what makes its pods anew when their template changes.
func restartable(group, resource string) bool {
	return group == "apps" && slices.Contains([]string{"deployments", "statefulsets", "daemonsets"}, resource)
}

// restartService restarts all that a service has applied.
func (a *API) restartService(w http.ResponseWriter, r *http.Request, who asker) error {
	f, err := a.feeds.open(r.Context(), subject{cluster: who.cluster, service: r.PathValue("service")})
	if err != nil {
		return err
	}
	defer a.feeds.close(f)
	var refs []v1.ObjectRef
	for _, o := range f.shown() {
		if o.GetApplied() && restartable(o.GetGroup(), o.GetResource()) {
			refs = append(refs, v1.ObjectRef{
				Group: o.GetGroup(), Version: o.GetVersion(), Resource: o.GetResource(), Namespace: o.GetNamespace(), Name: o.GetName(),
			})
		}
	}
	if len(refs) == 0 {
		return &Refusal{
			Status: http.StatusConflict, Message: "the service has no Deployment, StatefulSet or DaemonSet in this cluster", Fix: "restart what it has by hand",
		}
	}
	slices.SortFunc(refs, func(x, y v1.ObjectRef) int {
		return strings.Compare(x.Resource+" "+x.Namespace+" "+x.Name, y.Resource+" "+y.Namespace+" "+y.Name)
	})
	return a.act(w, r, refs, func(ctx context.Context, ref v1.ObjectRef) (string, error) { return "", a.roll(ctx, who, ref) })
}

// restart restarts one object.
func (a *API) restart(w http.ResponseWriter, r *http.Request, who asker) error {
	var ref v1.ObjectRef
	if err := read(w, r, &ref); err != nil {
		return err
	}
	if err := check(&ref); err != nil {
		return err
	}
	if !restartable(ref.Group, ref.Resource) {
		return bad("%q cannot be restarted: deployments, statefulsets and daemonsets of apps can", clip(ref.Resource))
	}
	return a.act(w, r, []v1.ObjectRef{ref}, func(ctx context.Context, ref v1.ObjectRef) (string, error) { return "", a.roll(ctx, who, ref) })
}

// scale sets the replicas of one object.
func (a *API) scale(w http.ResponseWriter, r *http.Request, who asker) error {
	var want v1.Scale
	if err := read(w, r, &want); err != nil {
		return err
	}
	if err := check(&want.ObjectRef); err != nil {
		return err
	}
	if want.Replicas == nil || *want.Replicas < 0 {
		return bad("replicas is not given, or below zero")
	}
	return a.act(w, r, []v1.ObjectRef{want.ObjectRef}, func(ctx context.Context, ref v1.ObjectRef) (string, error) {
		note := a.healed(ctx, who, ref)
		patch := map[string]any{"spec": map[string]any{"replicas": *want.Replicas}}
		return note, a.patch(ctx, who, ref, "application/merge-patch+json", patch, "scale")
	})
}

// check reads a reference strictly, and fills in its version.
func check(ref *v1.ObjectRef) error {
	at, err := newPlace(ref.Group, ref.Version, ref.Resource, ref.Namespace)
	if err != nil {
		return err
	}
	if !word().MatchString(ref.Name) {
		return bad("name %q is no name", clip(ref.Name))
	}
	ref.Version = at.version
	return nil
}

// act does something to each of some objects, and answers with what came of it. When nothing was done, the answer is the first
// refusal.
func (a *API) act(w http.ResponseWriter, r *http.Request, refs []v1.ObjectRef, do func(context.Context, v1.ObjectRef) (string, error)) error {
	answer := v1.Acted{Objects: make([]v1.ActedObject, len(refs))}
	errs := make([]error, len(refs))
	var group errgroup.Group
	group.SetLimit(maxActing)
	for i, ref := range refs {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(r.Context(), acting)
			defer cancel()
			done := v1.ActedObject{ObjectRef: ref}
			if done.Note, errs[i] = do(ctx, ref); errs[i] != nil {
				done.Error = refusalOf(errs[i]).Message
			}
			done.Done = errs[i] == nil
			answer.Objects[i] = done
			return nil
		})
	}
	_ = group.Wait() // each failure is told in its place
	if !slices.Contains(errs, nil) {
		return errs[0]
	}
	reply(w, http.StatusOK, answer)
	return nil
}

// roll has an object's pods made anew, as `kubectl rollout restart` does.
func (a *API) roll(ctx context.Context, who asker, ref v1.ObjectRef) error {
	at := map[string]any{"kubectl.kubernetes.io/restartedAt": a.o.Now().UTC().Format(time.RFC3339)}
	template := map[string]any{"metadata": map[string]any{"annotations": at}}
	return a.patch(ctx, who, ref, "application/strategic-merge-patch+json", map[string]any{"spec": map[string]any{"template": template}})
}

func (a *API) patch(ctx context.Context, who asker, ref v1.ObjectRef, media string, patch any, subresource ...string) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	at := place{ref.Group, ref.Version, ref.Resource, ref.Namespace}
	names := append([]string{ref.Name}, subresource...)
	r, err := at.request(ctx, http.MethodPatch, url.Values{"fieldManager": {fieldManager}}, bytes.NewReader(body), names...)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", media)
	r.Header.Set("Accept", "application/json")
	resp, err := a.do(ctx, who, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return refused(resp)
}

// managed is what is read of an object to see who sets its replicas.
type managed struct {
	Metadata struct {
		Labels        map[string]string `json:"labels"`
		ManagedFields []struct {
			Manager   string         `json:"manager"`
			Operation string         `json:"operation"`
			Fields    map[string]any `json:"fieldsV1"`
		} `json:"managedFields"`
	} `json:"metadata"`
}

// healed says that the fleet sets the replicas of an object, so that its agent will set them back; empty when it does not, or the
// person may not see that.
func (a *API) healed(ctx context.Context, who asker, ref v1.ObjectRef) string {
	at := place{ref.Group, ref.Version, ref.Resource, ref.Namespace}
	r, err := at.request(ctx, http.MethodGet, nil, nil, ref.Name)
	if err != nil {
		return ""
	}
	r.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json")
	resp, err := a.do(ctx, who, r)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var live managed
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, maxObject)).Decode(&live) != nil {
		return ""
	}
	service := live.Metadata.Labels[serviceLabel]
	for _, m := range live.Metadata.ManagedFields {
		spec, _ := m.Fields["f:spec"].(map[string]any)
		if _, sets := spec["f:replicas"]; sets && service != "" && m.Manager == applier && m.Operation == "Apply" {
			return "the fleet sets its replicas, and the agent sets them back: change the service " + service + " in the installation repo, or suspend it"
		}
	}
	return ""
}
