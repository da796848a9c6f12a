package helmrepo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// parseItem reads one version's text, a list with one mapping in it.
func parseItem(text []byte) (release, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return release{}, fmt.Errorf("is not YAML: %w", err)
	}
	nodes := 0
	if err := checkNode(&document, 0, &nodes); err != nil {
		return release{}, err
	}
	if len(document.Content) != 1 {
		return release{}, errors.New("is not one version of a chart")
	}
	list := document.Content[0]
	if list.Kind != yaml.SequenceNode || len(list.Content) != 1 {
		return release{}, errors.New("is not one version of a chart")
	}
	return decodeNode(list.Content[0])
}

func decodeNode(n *yaml.Node) (release, error) {
	var r release
	if n.Kind != yaml.MappingNode {
		return r, errors.New("is not one version of a chart")
	}
	if err := n.Decode(&r); err != nil {
		return r, fmt.Errorf("says what no version of a chart has: %w", err)
	}
	return r, nil
}

// checkNode refuses what grows when it is read: references, and depth.
func checkNode(n *yaml.Node, depth int, nodes *int) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return errors.New("uses YAML anchors, which are not read")
	}
	if *nodes++; *nodes > maxNodes {
		return fmt.Errorf("has more than %d values in one place", maxNodes)
	}
	if depth > maxDepth {
		return fmt.Errorf("is nested deeper than %d", maxDepth)
	}
	for _, below := range n.Content {
		if err := checkNode(below, depth+1, nodes); err != nil {
			return err
		}
	}
	return nil
}

// readLoose reads a small index of any form at once.
func readLoose(text []byte, wanted map[string]bool) (map[string]*listing, error) {
	var document struct {
		Entries map[string]yaml.Node `yaml:"entries"`
	}
	var whole yaml.Node
	if err := yaml.Unmarshal(text, &whole); err != nil {
		return nil, &IndexError{Reason: fmt.Sprintf("is not YAML: %v", err)}
	}
	nodes := -maxLoose // as many as it has bytes are not too many
	if err := checkNode(&whole, 0, &nodes); err != nil {
		return nil, &IndexError{Reason: err.Error()}
	}
	if err := whole.Decode(&document); err != nil {
		return nil, &IndexError{Reason: fmt.Sprintf("is not the index of a Helm repository: %v", err)}
	}
	if document.Entries == nil {
		return nil, &IndexError{Reason: `has no "entries": it is not the index of a Helm repository`}
	}
	charts := map[string]*listing{}
	for name, list := range document.Entries {
		if !wanted[name] {
			continue
		}
		charts[name] = &listing{}
		for _, item := range list.Content {
			r, err := decodeNode(item)
			if err := charts[name].add(r, err, item.Line); err != nil {
				return nil, err
			}
		}
	}
	return charts, nil
}

// readJSON reads an index in JSON, token by token where nothing is wanted.
func readJSON(in *bufio.Reader, wanted map[string]bool) (map[string]*listing, error) {
	budget := &budgetReader{r: in}
	j := &jsonIndex{dec: json.NewDecoder(budget), budget: budget, wanted: wanted, charts: map[string]*listing{}}
	found := false
	err := j.object(func(key string) error {
		if key != "entries" {
			return j.skip()
		}
		found = true
		return j.object(j.chart)
	})
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return nil, fmt.Errorf("index.yaml: %w: %w", errShape, err)
	}
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, &IndexError{Reason: `has no "entries": it is not the index of a Helm repository`}
	}
	return j.charts, nil
}

type jsonIndex struct {
	dec    *json.Decoder
	budget *budgetReader
	wanted map[string]bool
	charts map[string]*listing
}

// token reads the next one; none may need more than one version's text.
func (j *jsonIndex) token() (json.Token, error) {
	j.budget.left = 2 * maxItem
	return j.dec.Token()
}

// object hands each key of an object to value, which reads what follows; null is an empty one.
func (j *jsonIndex) object(value func(key string) error) error {
	switch open, err := j.token(); {
	case err != nil:
		return err
	case open == nil:
		return nil
	case open != json.Delim('{'):
		return &IndexError{Reason: "is not the index of a Helm repository"}
	}
	for j.dec.More() {
		key, err := j.token()
		if err != nil {
			return err
		}
		if err := value(key.(string)); err != nil { //nolint:forcetypeassert // the decoder takes nothing else for a key
			return err
		}
	}
	_, err := j.token()
	return err
}

func (j *jsonIndex) chart(name string) error {
	if !j.wanted[name] {
		return j.skip()
	}
	if j.charts[name] != nil {
		return &IndexError{Reason: fmt.Sprintf("names chart %.80q twice", name)}
	}
	list := &listing{}
	j.charts[name] = list
	switch open, err := j.token(); {
	case err != nil:
		return err
	case open == nil:
		return nil
	case open != json.Delim('['):
		return &IndexError{Reason: fmt.Sprintf("lists no versions of chart %.80q", name)}
	}
	for j.dec.More() {
		j.budget.left = 2 * maxItem
		var r release
		err := j.dec.Decode(&r)
		if wrongType := (*json.UnmarshalTypeError)(nil); err != nil && !errors.As(err, &wrongType) {
			return err
		}
		if err := list.add(r, err, 0); err != nil {
			return err
		}
	}
	_, err := j.token()
	return err
}

// skip reads over one value.
func (j *jsonIndex) skip() error {
	for depth := 0; ; {
		token, err := j.token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		if depth > maxDepth {
			return &IndexError{Reason: fmt.Sprintf("is nested deeper than %d", maxDepth)}
		}
	}
}

// budgetReader bounds what one step of a decoder may draw.
type budgetReader struct {
	r    io.Reader
	left int
}

func (b *budgetReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &IndexError{Reason: fmt.Sprintf("says more than %d bytes in one place", 2*maxItem)}
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
