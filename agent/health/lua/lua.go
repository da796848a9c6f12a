// Package lua owns the child process that runs Lua health checks.
//
// It refuses to know which kinds have scripts, and what a verdict leads to.
//
// Health sends a script and a live object down the stdin of a child process (the same binary, run as "health-child"),
// which has raised walls around itself, and reads one reply. The child starts when it is first needed and lives on. When
// a script takes too long, too much memory or the child's life, that evaluation fails, and the next has a new child.
package lua

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/health"
)

const (
	// DefaultWall is how long one evaluation may take.
	DefaultWall = time.Second
	// memory is what the child may hold beyond what it holds before the first script, in bytes.
	memory = 64 << 20
	// maxObject is the largest object that a script sees, as JSON.
	maxObject = 8 << 20
	// maxReply is the longest that the child may say at once.
	maxReply = 16 << 10
	// startPatience is how long a child may take to be ready.
	startPatience = 20 * time.Second
	// maxBreaches is how often in a row a script may break its bounds before it rests.
	maxBreaches = 3
	// rest is how long such a script is not run: nobody else's evaluations wait for it meanwhile.
	rest = time.Minute
	// maxBreakers bounds the scripts whose breaches are remembered.
	maxBreakers = 256
)

// BoundError is a script that took more than it may have, or the life of the process that it ran in.
type BoundError struct{ Message string }

func (e *BoundError) Error() string { return e.Message }

// Scripts runs health scripts, one at a time. It is safe for concurrent use, and not to be copied.
type Scripts struct {
	// Command starts a process whose whole main is ChildMain: "plural health-child".
	Command []string
	// Wall is how long one evaluation may take. Zero is DefaultWall.
	Wall time.Duration

	once     sync.Once
	turn     chan struct{} // holds one value while somebody works with what is below
	child    *child
	breakers map[[sha256.Size]byte]*breaker
}

var _ health.Scripts = (*Scripts)(nil)

// breaker is what is remembered of a script that broke its bounds.
type breaker struct {
	breaches int
	until    time.Time
}

// Health runs script over obj, which it does not change, as Argo CD runs a health.lua. Suspended is Healthy here, since
// nothing but a person would change it, and Missing is Progressing.
func (s *Scripts) Health(ctx context.Context, script string, obj *unstructured.Unstructured) (health.Status, error) {
	question, err := request(script, obj)
	if err != nil {
		return health.Status{}, err
	}
	if err := s.enter(ctx); err != nil {
		return health.Status{}, fmt.Errorf("wait for other scripts: %w", err)
	}
	defer s.leave()
	digest := sha256.Sum256([]byte(script))
	if b := s.breakers[digest]; b != nil && b.breaches >= maxBreaches && time.Now().Before(b.until) {
		return health.Status{}, &BoundError{fmt.Sprintf("the script broke its bounds %d times, and is tried again in a minute", b.breaches)}
	}
	status, err := s.ask(ctx, question)
	s.remember(digest, err)
	return status, err
}

// Close ends the child, if there is one. Health may be called again: it starts another.
func (s *Scripts) Close() {
	_ = s.enter(context.Background())
	defer s.leave()
	s.drop()
}

func (s *Scripts) enter(ctx context.Context) error {
	s.once.Do(func() { s.turn = make(chan struct{}, 1) })
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Scripts) leave() { <-s.turn }

func (s *Scripts) drop() {
	if s.child != nil {
		s.child.end()
		s.child = nil
	}
}

// ask has one evaluation done. A child that did not reply properly is not asked again.
func (s *Scripts) ask(ctx context.Context, question []byte) (health.Status, error) {
	if s.child == nil {
		started, err := start(ctx, s.Command)
		if err != nil {
			return health.Status{}, fmt.Errorf("start health-child: %w", err)
		}
		s.child = started
	}
	wall := s.Wall
	if wall == 0 {
		wall = DefaultWall
	}
	line, err := s.child.ask(ctx, question, wall)
	if err != nil {
		s.drop()
		return health.Status{}, err
	}
	return decode(line)
}

// remember counts the breaches of a script in a row.
func (s *Scripts) remember(script [sha256.Size]byte, err error) {
	var broke *BoundError
	if !errors.As(err, &broke) {
		delete(s.breakers, script)
		return
	}
	if s.breakers == nil || len(s.breakers) >= maxBreakers {
		s.breakers = map[[sha256.Size]byte]*breaker{}
	}
	if s.breakers[script] == nil {
		s.breakers[script] = &breaker{}
	}
	s.breakers[script].breaches++
	s.breakers[script].until = time.Now().Add(rest)
}

// question is what the child is sent for one evaluation, as a line of JSON.
type question struct {
	Script string          `json:"script"`
	Object json.RawMessage `json:"object"`
}

// reply is what it answers, as a line of JSON. The first has neither a status nor an error: the child is ready.
type reply struct {
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
}

// request leaves out who manages which field: it is the larger part of many objects, and no script's business.
func request(script string, obj *unstructured.Unstructured) ([]byte, error) {
	if len(script) > health.MaxText {
		return nil, fmt.Errorf("%d bytes are more than the %d of a script", len(script), health.MaxText)
	}
	whole := obj.Object
	if metadata, ok := whole["metadata"].(map[string]any); ok {
		whole, metadata = maps.Clone(whole), maps.Clone(metadata)
		delete(metadata, "managedFields")
		whole["metadata"] = metadata
	}
	object, err := json.Marshal(whole)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	if len(object) > maxObject {
		return nil, fmt.Errorf("the object has %d bytes, more than the %d that a script sees", len(object), maxObject)
	}
	line, err := json.Marshal(question{script, object})
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	return append(line, '\n'), nil
}

// decode reads a reply. What the child says is worth no more than the script in it.
func decode(line []byte) (health.Status, error) {
	var said reply
	strict := json.NewDecoder(bytes.NewReader(line))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&said); err != nil {
		return health.Status{}, fmt.Errorf("read the child's reply: %w", err)
	}
	if said.Error != "" {
		return health.Status{}, errors.New(said.Error)
	}
	switch said.Status {
	case "Healthy":
		return health.Status{Phase: health.Healthy, Message: said.Message}, nil
	case "Suspended":
		return health.Status{Phase: health.Healthy, Message: strings.TrimSuffix("suspended: "+said.Message, ": ")}, nil
	case "Progressing", "Missing":
		return health.Status{Phase: health.Progressing, Message: said.Message}, nil
	case "Degraded":
		return health.Status{Phase: health.Degraded, Message: said.Message}, nil
	case "Unknown":
		return health.Status{Phase: health.Unknown, Message: said.Message}, nil
	}
	return health.Status{}, fmt.Errorf("the script gives status %q; want one of %s", said.Status, strings.Join(statuses(), ", "))
}

// statuses are the words that a script may use.
func statuses() []string {
	words := []string{"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"}
	slices.Sort(words)
	return words
}
