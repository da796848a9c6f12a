package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// lookup is a child's question about the cluster.
type lookup struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
}

// reply is the parent's answer to one lookup.
type reply struct {
	Found json.RawMessage `json:"found,omitempty"`
	Error string          `json:"error,omitempty"`
}

// looker answers a child's lookups, in the parent, up to the limits.
type looker struct {
	lookup  Lookup
	limits  Limits
	replies *json.Encoder
	count   int
	size    int64
}

// answer replies once the child has been told everything else. What the cluster refuses is the chart's error, which has a line;
// the error returned here ends the conversation.
func (l *looker) answer(ctx context.Context, unsent func() error, q *lookup) error {
	if err := unsent(); err != nil {
		return err
	}
	if l.lookup == nil {
		return errors.New("it looks things up that nobody offered")
	}
	if l.count++; l.count > l.limits.Lookups {
		return place{}.limit("looks up more than %d objects", l.limits.Lookups)
	}
	var r reply
	if found, err := l.lookup(ctx, q.APIVersion, q.Kind, q.Namespace, q.Name); err != nil {
		r.Error = err.Error()
	} else if r.Found, err = json.Marshal(found); err != nil {
		r = reply{Error: err.Error()}
	}
	if l.size += int64(len(r.Found)); l.size > l.limits.Looked {
		return place{}.limit("looks up more than %d MiB", l.limits.Looked>>20)
	}
	if err := l.replies.Encode(r); err != nil && !broken(err) {
		return fmt.Errorf("reply: %w", err)
	}
	return nil
}

// lookupClient asks the parent, in the child. A question that was answered is not asked again, so that one render sees one cluster.
type lookupClient struct {
	*reporter
	replies <-chan reply
	known   map[lookup]map[string]any
}

// lookup is helm's function of that name.
func (a *lookupClient) lookup(apiVersion, kind, namespace, name string) (map[string]any, error) {
	a.traits.Lookup = true
	if a.replies == nil {
		return map[string]any{}, nil
	}
	q := lookup{apiVersion, kind, namespace, name}
	if found, ok := a.known[q]; ok {
		return found, nil
	}
	found, err := a.ask(q)
	if err != nil {
		return map[string]any{}, fmt.Errorf("look up %s %s: %w", apiVersion, kind, err)
	}
	a.known[q] = found
	return found, nil
}

func (a *lookupClient) ask(q lookup) (map[string]any, error) {
	if err := a.question(q); err != nil {
		return nil, err
	}
	return (<-a.replies).content()
}

// content is what was found, with numbers as the API machinery has them.
func (r reply) content() (map[string]any, error) {
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	found := map[string]any{}
	if len(r.Found) == 0 || string(r.Found) == "null" {
		return found, nil
	}
	return found, utiljson.Unmarshal(r.Found, &found)
}

// hear passes on the parent's replies until nobody holds the other end of stdin any more, or says what is no reply.
func hear(stdin io.Reader, replies chan<- reply) {
	lines := json.NewDecoder(stdin)
	for {
		var r reply
		if err := lines.Decode(&r); err != nil {
			return
		}
		replies <- r
	}
}
