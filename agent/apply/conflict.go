package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/pluralsh/plural/agent/fieldpath"
)

// initialManager owns the fields that are set when an object is made and left alone from then on, so that nobody's removal
// of them from a manifest takes them off the object.
const initialManager = "plural-initial"

// A conflict is a field that another manager owns with another value.
type conflict struct {
	manager string
	// scale says that it was set through the scale subresource.
	scale bool
	// field is as the API server prints it, path as tokens of a JSON pointer into the manifest.
	field string
	path  []string
}

func isFieldConflict(err error) bool { return len(fieldConflicts(err)) > 0 }

// fieldConflicts are the API server's causes of a conflict between managers.
func fieldConflicts(err error) []metav1.StatusCause {
	if !apierrors.IsConflict(err) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(causes(err)), func(c metav1.StatusCause) bool {
		return c.Type != metav1.CauseTypeFieldManagerConflict
	})
}

// managerName finds the other manager in words such as `conflict with "kubectl-edit" using apps/v1`.
var managerName = regexp.MustCompile(`^conflict with "((?:[^"\\]|\\.)*)"`)

func conflictOf(cause metav1.StatusCause, manifest map[string]any) conflict {
	c := conflict{manager: "somebody", field: strings.TrimPrefix(cause.Field, "."), scale: strings.Contains(cause.Message, `subresource "scale"`)}
	if found := managerName.FindStringSubmatch(cause.Message); found != nil {
		c.manager = cmp.Or(found[1], c.manager)
	}
	c.path, _ = fieldpath.Find(manifest, cause.Field)
	return c
}

// resolve decides field by field, and returns what to send instead, and what is taken from whom, in words: if anything is, it has
// to be insisted on.
func (p *pass) resolve(it item, body []byte, cause error) (resolved []byte, taking string, err error) {
	var manifest map[string]any
	if err := kjson.Unmarshal(body, &manifest); err != nil {
		return nil, "", err
	}
	taken, yielded := map[string][]string{}, map[string][]string{}
	var refused []string
	for _, each := range fieldConflicts(cause) {
		c := conflictOf(each, manifest)
		switch p.policy(it, c) {
		case Fail:
			refused = append(refused, fmt.Sprintf("%s belongs to %q", c.field, c.manager))
		case Yield, Ignore:
			fieldpath.Remove(manifest, [][]string{c.path})
			yielded[c.manager] = append(yielded[c.manager], c.field)
		default:
			taken[c.manager] = append(taken[c.manager], c.field)
		}
	}
	if len(refused) > 0 {
		return nil, "", &conflictError{fields: refused}
	}
	var takings []string
	for _, manager := range slices.Sorted(maps.Keys(taken)) {
		takings = append(takings, fmt.Sprintf("%s taken from %q", enumerate(taken[manager]), manager))
		p.note("%s: %s", it.id, takings[len(takings)-1])
	}
	for manager, fields := range yielded {
		p.note("%s: %s left to %q", it.id, enumerate(fields), manager)
	}
	resolved, err = json.Marshal(manifest)
	return resolved, strings.Join(takings, ", "), err
}

// policy is what is done about one field: as its own rule says, as the service says, or as is usual.
func (p *pass) policy(it item, c conflict) Policy {
	if slices.ContainsFunc(essential(), func(path []string) bool { return slices.Equal(path, c.path) }) {
		return Own
	}
	for _, rule := range p.req.Fields {
		if rule.fits(it.id) && c.path != nil && fieldpath.Covers(rule.Pointer, c.path) {
			return rule.Policy
		}
	}
	switch {
	case c.path == nil && p.req.Conflicts != Fail:
		return Own // a field that cannot be taken out of the manifest cannot be left to anybody
	case p.req.Conflicts != "":
		return p.req.Conflicts
	case c.scale && !strings.HasPrefix(c.manager, "kubectl"):
		return Yield // an autoscaler's work; a person's is drift
	default:
		return Own
	}
}

// enumerate names a few fields, and counts the rest.
func enumerate(fields []string) string {
	const most = 3
	if len(fields) <= most {
		return strings.Join(fields, ", ")
	}
	return fmt.Sprintf("%s and %d more fields", strings.Join(fields[:most], ", "), len(fields)-most)
}

// conflictError is a conflict that the policy does not let anybody resolve.
type conflictError struct{ fields []string }

func (e *conflictError) Error() string { return strings.Join(e.fields, "; ") }

func isRefusedConflict(err error) bool {
	var refused *conflictError
	return errors.As(err, &refused)
}

// ignored are the pointers of the item's manifest that are left alone once the object is there.
func (p *pass) ignored(it item) [][]string {
	var found [][]string
	for _, rule := range p.req.Fields {
		if rule.Policy == Ignore && rule.fits(it.id) {
			found = append(found, fieldpath.Match(it.obj.Object, rule.Pointer)...)
		}
	}
	return found
}

// prepared is what is sent of an item: all of it when it is new; else without what is left alone by now, which is first
// handed over when it is still ours.
func (p *pass) prepared(ctx context.Context, it item, there bool) ([]byte, error) {
	fields := p.ignored(it)
	if len(fields) == 0 || !there {
		return it.body, nil
	}
	live, err := p.wire.getWhole(ctx, p.target(it))
	p.contact.note(err)
	if apierrors.IsNotFound(err) && !isUnserved(err) {
		return it.body, nil // it went a moment ago
	}
	if err != nil {
		return nil, err
	}
	if err := p.handOver(ctx, it, live, fields); err != nil {
		return nil, err
	}
	return without(it.body, fields)
}

// letGo hands over the fields of an object that was just made, and applies it again without them.
func (p *pass) letGo(ctx context.Context, it item, live *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	fields := p.ignored(it)
	if !it.res.Status {
		var err error
		live, err = p.wire.getWhole(ctx, p.target(it))
		if p.contact.note(err); err != nil {
			return nil, false, err
		}
	}
	if err := p.handOver(ctx, it, live, fields); err != nil {
		return nil, false, err
	}
	body, err := without(it.body, fields)
	if err != nil {
		return nil, false, err
	}
	after, _, err := p.send(ctx, it, body, false)
	return after, true, err
}

// handOver makes another manager the owner of fields as they are live.
func (p *pass) handOver(ctx context.Context, it item, live *unstructured.Unstructured, fields [][]string) error {
	skeleton, err := json.Marshal(fieldpath.Excerpt(it.obj.Object, live.Object, fields))
	if err != nil {
		return err
	}
	_, _, err = p.wire.apply(ctx, p.target(it), skeleton, applying{manager: initialManager, force: true})
	p.contact.note(err)
	return err
}

func without(body []byte, fields [][]string) ([]byte, error) {
	var manifest map[string]any
	if err := kjson.Unmarshal(body, &manifest); err != nil {
		return nil, err
	}
	fieldpath.Remove(manifest, fields)
	return json.Marshal(manifest)
}
