package live

import (
	"context"
	"net/http"
	"time"

	"github.com/pluralsh/plural/api/tunnelapi"
	v1 "github.com/pluralsh/plural/api/v1"
)

// comparing bounds how long an agent may take to render a service and to have its API server try it.
const comparing = 100 * time.Second

// maxDiff bounds an answer, in bytes, with room for what stands around the objects.
const maxDiff = 96_000

// diff answers with what applying a service would change now. Of objects that the person may not list in the cluster it says no
// more than that they change.
func (a *API) diff(w http.ResponseWriter, r *http.Request, who asker) error {
	ctx, cancel := context.WithTimeout(r.Context(), comparing)
	defer cancel()
	agent, err := a.o.Reach(ctx, who.cluster)
	if err != nil {
		return err
	}
	defer agent.Release()
	said, err := agent.Diff(ctx, &tunnelapi.DiffRequest{Service: r.PathValue("service")})
	if err != nil {
		return err
	}
	answer := v1.Diff{Objects: []v1.ObjectDiff{}, Error: said.GetError(), More: int(said.GetMore())}
	size := 0
	for i, o := range said.GetObjects() {
		diff, err := a.objectDiff(ctx, who, o)
		if err != nil {
			return err
		}
		if size += sizeOf(diff) + 1; size > maxDiff && i > 0 {
			answer.More += len(said.GetObjects()) - i
			break
		}
		answer.Objects = append(answer.Objects, diff)
	}
	reply(w, http.StatusOK, answer)
	return nil
}

func (a *API) objectDiff(ctx context.Context, who asker, o *tunnelapi.ObjectDiff) (v1.ObjectDiff, error) {
	diff := v1.ObjectDiff{
		Group: o.GetGroup(), Version: o.GetVersion(), Kind: o.GetKind(), Resource: o.GetResource(), Namespace: o.GetNamespace(),
		Name: o.GetName(), Action: v1.ObjectAction(o.GetAction()), Message: o.GetMessage(), More: int(o.GetMore()),
	}
	if len(o.GetFields()) == 0 {
		return diff, nil
	}
	at, err := newPlace(o.GetGroup(), o.GetVersion(), o.GetResource(), o.GetNamespace())
	if err == nil {
		diff.Hidden, err = a.hides(ctx, who, at)
	} else {
		diff.Hidden, err = true, nil // what cannot be asked about is not shown
	}
	if err != nil || diff.Hidden {
		diff.More = 0
		return diff, err
	}
	size := 0
	for i, f := range o.GetFields() {
		field := v1.FieldDiff{Path: f.GetPath(), Live: f.GetLive(), Desired: f.GetDesired()}
		if size += sizeOf(field) + 1; size > maxDiff/2 {
			diff.More += len(o.GetFields()) - i
			break
		}
		diff.Fields = append(diff.Fields, field)
	}
	return diff, nil
}
