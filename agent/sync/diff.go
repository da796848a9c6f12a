package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/compare"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// Bounds of what a diff says.
const (
	maxDiffFields = 200
	maxDiffValue  = 4 << 10 // bytes of JSON
	maxDiff       = tunnelapi.MaxMessage - 64<<10
)

// question asks the loop what a pass over a service would be given.
type question struct {
	service string
	answer  chan<- work // has room for one
}

// answer gives no deployment when nothing is asked for of the service.
func (state *loopState) answer(q question) {
	svc := state.services[q.service]
	if svc == nil || svc.desired == nil {
		q.answer <- work{}
		return
	}
	q.answer <- svc.work(state)
}

// Diff compares what a service should be by its newest deployment with what is live, and changes nothing. Values of Secrets,
// and what was sealed, are masked: as ***(digits), which differ where the values do. One diff is made at a time. An error
// means that ctx ended; why there is nothing to say stands in the reply.
func (s *Syncer) Diff(ctx context.Context, req *tunnelapi.DiffRequest) (*tunnelapi.DiffReply, error) {
	select {
	case s.diffs <- struct{}{}:
		defer func() { <-s.diffs }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	answer := make(chan work, 1)
	select {
	case s.questions <- question{req.GetService(), answer}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w := <-answer
	d := w.desired
	switch {
	case d == nil:
		return &tunnelapi.DiffReply{Error: fmt.Sprintf("nothing asks for a service %q here", clip(req.GetService(), maxNote))}, nil
	case d.GetHold() != "":
		return &tunnelapi.DiffReply{Error: clip(d.GetHold(), maxMessage)}, nil
	}
	p := &pass{Syncer: s, work: w, result: result{service: w.service, desired: d, good: w.good}}
	changes, err := p.compare(ctx, d)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return &tunnelapi.DiffReply{Error: clip(p.silence(ctx, d, err.Error()), maxMessage)}, nil
	}
	return p.differences(ctx, d, changes), nil
}

// compare has the API server try a deployment.
func (p *pass) compare(ctx context.Context, d *api.Deployment) ([]apply.Change, error) {
	identity, known, err := p.identity(d, p.asks, p.can)
	if err != nil {
		return nil, err
	}
	if !known {
		identity = ""
	}
	request := policies(d)
	request.Key = d.GetKey()
	request.Objects = func(ctx context.Context) ([]*unstructured.Unstructured, error) { return p.objects(ctx, d, identity) }
	return p.Engine.Diff(ctx, request)
}

// differences are changes in words that repeat nothing that was sealed.
func (p *pass) differences(ctx context.Context, d *api.Deployment, changes []apply.Change) *tunnelapi.DiffReply {
	reply, size := &tunnelapi.DiffReply{}, 0
	sealed := p.secrets(ctx, d)
	for i := range changes {
		diff := p.difference(&changes[i], sealed)
		diff.Message = clip(p.silence(ctx, d, diff.GetMessage()), maxMessage)
		if size += proto.Size(diff) + 4; size > maxDiff {
			reply.More = int32(len(changes) - i)
			break
		}
		reply.Objects = append(reply.Objects, diff)
	}
	return reply
}

func (p *pass) difference(c *apply.Change, sealed []string) *tunnelapi.ObjectDiff {
	diff := &tunnelapi.ObjectDiff{
		Group: c.ID.Group, Kind: c.ID.Kind, Namespace: c.ID.Namespace, Name: c.ID.Name,
		Version: c.Served.Version, Resource: c.Served.Resource, Message: strings.Join(c.Conflicts, "; "),
	}
	switch c.Action {
	case apply.Created:
		diff.Action = "created"
	case apply.Deleted:
		diff.Action = "deleted"
	case apply.Failed:
		diff.Action, diff.Message = "failed", told(c.Err)
	default:
		diff.Action = "changed"
	}
	for _, f := range p.fields(c, sealed) {
		if len(diff.Fields) == maxDiffFields {
			diff.More++
			continue
		}
		diff.Fields = append(diff.Fields, masked(f, c.ID.IsSecret()))
	}
	return diff
}

// fields are what differs of an object; of one that comes or goes, all of it.
func (p *pass) fields(c *apply.Change, sealed []string) []compare.Field {
	if c.Before == nil && c.After == nil {
		return nil
	}
	side := func(obj *unstructured.Unstructured) compare.Side {
		if obj == nil { // with no fields, it has the same name as the other
			obj = &unstructured.Unstructured{Object: map[string]any{}}
			obj.SetKind(c.ID.Kind)
			obj.SetAPIVersion(strings.TrimPrefix(c.ID.Group+"/"+c.Served.Version, "/"))
			obj.SetNamespace(c.ID.Namespace)
			obj.SetName(c.ID.Name)
		}
		return compare.Side{Objects: []*unstructured.Unstructured{obj}, Namespace: c.ID.Namespace, Sealed: sealed}
	}
	var fields []compare.Field
	for _, change := range compare.Objects(side(c.Before), side(c.After), p.diffKey) {
		fields = append(fields, change.Fields...)
	}
	return fields
}

// masked is a field on the wire. Where one side holds what was sealed, what is live there may hold what was sealed before, which
// nobody here knows: it is shown as ***. The keys of a Secret are masked one by one already.
func masked(f compare.Field, secret bool) *tunnelapi.FieldDiff {
	out := &tunnelapi.FieldDiff{Path: clip(f.Path, maxNote), Live: text(f.Before), Desired: text(f.After)}
	const mask = "***"
	if !secret && f.Before != nil && (strings.Contains(out.GetLive(), mask) || strings.Contains(out.GetDesired(), mask)) {
		out.Live = `"` + mask + `"`
	}
	out.Live, out.Desired = cut(out.GetLive()), cut(out.GetDesired())
	return out
}

// text is a value as JSON; empty when there is none.
func text(value any) string {
	if value == nil {
		return ""
	}
	out, err := json.Marshal(value)
	if err != nil {
		return `"` + err.Error() + `"` // no value of the API server's is one
	}
	return string(out)
}

// cut keeps the beginning of a value.
func cut(value string) string {
	if len(value) <= maxDiffValue {
		return value
	}
	end := maxDiffValue
	for end > 0 && !utf8.RuneStart(value[end]) {
		end--
	}
	return value[:end] + "…"
}
