// Package update owns the check for newer releases of the program.
//
// It refuses to know whether a person wants to hear of them, and how they are told.
//
// There is one question, at most once a day: a GET of the newest release, which carries nothing but the program's name. The answer
// stands in one file of the state folder. Watch asks beside a command and is broken off with it, so a command never takes longer;
// what it could not hear is asked again by a command an hour later.
package update

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/pluralsh/plural/internal/replace"
	"github.com/pluralsh/plural/workspace/versions"
)

const (
	fileName  = "release.json"
	every     = 24 * time.Hour
	again     = time.Hour
	within    = 3 * time.Second
	maxAnswer = 1 << 20
)

// Release is a version that can be had.
type Release struct {
	Version   string    `json:"version"`
	URL       string    `json:"url,omitempty"`
	Published time.Time `json:"published,omitzero"`
}

// Checker knows of releases.
type Checker struct {
	// Feed answers with the newest release, as GitHub's API does; empty: there is none to ask.
	Feed string
	// Version is the program's own.
	Version string
	// Dir is where the last answer is kept.
	Dir string
	Now func() time.Time
}

// seen is the file.
type seen struct {
	Checked time.Time `json:"checked"`
	Release Release   `json:"release"`
	// Asked is when Watch began to ask last, whatever came of it.
	Asked time.Time `json:"asked,omitzero"`
}

// lately says whether something was less than a while ago.
func lately(then, now time.Time, while time.Duration) bool {
	return !then.After(now) && now.Sub(then) < while
}

// Newer says whether a release is newer than the program. A program that is no release itself has none that is.
func (c *Checker) Newer(r *Release) bool {
	own := versions.Parse(c.Version)
	if r == nil || own == nil {
		return false
	}
	other := versions.Parse(r.Version)
	return other != nil && other.GreaterThan(own)
}

// Watch begins to look for the newest release, where that is due. What it returns breaks that off, and says what is known by then:
// the newest release that was ever heard of, or nil. It is called once.
func (c *Checker) Watch(ctx context.Context) (known func() *Release) {
	last, now := c.recall(), c.Now()
	if c.Feed == "" || lately(last.Checked, now, every) || lately(last.Asked, now, again) {
		return func() *Release { return last.release() }
	}
	last.Asked = now
	c.keep(last)
	ctx, cancel := context.WithTimeout(ctx, within)
	found := make(chan *Release, 1)
	go func() {
		r, _ := c.Check(ctx)
		found <- r
	}()
	return func() *Release {
		cancel()
		if r := <-found; r != nil {
			return r
		}
		return last.release()
	}
}

// Check asks for the newest release, and remembers it.
func (c *Checker) Check(ctx context.Context) (*Release, error) {
	if c.Feed == "" {
		return nil, errors.New("this program was built without a place to ask for newer releases")
	}
	r, err := c.ask(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the newest release: %w", err)
	}
	c.keep(&seen{Checked: c.Now(), Release: *r})
	return r, nil
}

func (c *Checker) ask(ctx context.Context) (*Release, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Feed, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/vnd.github+json")
	request.Header.Set("User-Agent", "plural")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s", response.Status)
	}
	var answer struct {
		Tag       string    `json:"tag_name"`
		URL       string    `json:"html_url"`
		Published time.Time `json:"published_at"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&answer); err != nil {
		return nil, err
	}
	version := versions.Parse(answer.Tag)
	if version == nil {
		return nil, fmt.Errorf("%q is no version", answer.Tag[:min(len(answer.Tag), 64)])
	}
	return &Release{version.String(), answer.URL, answer.Published}, nil
}

func (s *seen) release() *Release {
	if s.Release.Version == "" {
		return nil
	}
	return &s.Release
}

// recall is empty where nothing is kept that could be read.
func (c *Checker) recall() *seen {
	last := &seen{}
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return last
	}
	defer root.Close()
	file, err := root.Open(fileName)
	if err != nil {
		return last
	}
	defer file.Close()
	if json.NewDecoder(io.LimitReader(file, maxAnswer)).Decode(last) != nil {
		return &seen{}
	}
	return last
}

// keep writes down what was heard. It is no matter when that fails: it is asked again.
func (c *Checker) keep(s *seen) {
	if os.MkdirAll(c.Dir, 0o755) != nil {
		return
	}
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return
	}
	defer root.Close()
	if text, err := json.Marshal(s); err == nil {
		_ = replace.File(root, fileName, text, 0o644)
	}
}
