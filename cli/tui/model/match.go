package model

import (
	"github.com/pluralsh/plural/internal/filter"
)

// parsed is a filter as a function; nil: it picks all.
func parsed[T any](l *List[T], text string) (func(*T) bool, error) {
	f, err := filter.Parse(text, l.table.schema)
	if err != nil {
		return nil, err
	}
	if len(f.Terms()) == 0 {
		return nil, nil
	}
	return f.Match, nil
}

// matchDeployments makes a function of a filter that looks at a text once that many rows share: a fleet has ten rows for each
// cluster and thousands for each service, and a regular expression costs more than all the rest.
func matchDeployments(l *List[Deployment], text string) (func(*Deployment) bool, error) {
	schema := l.table.schema
	f, err := filter.Parse(text, schema)
	if err != nil {
		return nil, err
	}
	terms := f.Terms()
	if len(terms) == 0 {
		return nil, nil
	}
	uses := usesOf(text, schema)
	tests := make([]func(*Deployment) bool, len(terms))
	for i := range terms {
		switch uses[i] {
		case ofPlace:
			tests[i] = once(terms[i].Match, placeOf)
		case ofWork:
			tests[i] = once(terms[i].Match, workOf)
		case ofNames:
			tests[i] = namesOnce(text, schema, i)
		default:
			tests[i] = terms[i].Match
		}
	}
	if len(tests) == 1 {
		return tests[0], nil
	}
	return func(d *Deployment) bool {
		for _, test := range tests {
			if !test(d) {
				return false
			}
		}
		return true
	}, nil
}

// use says what a term looks at.
type use uint8

const (
	ofRow   use = iota
	ofPlace     // what rows of a cluster share
	ofWork      // what rows of a service share
	ofNames     // one or the other
)

// usesOf says of each term what it looks at. It finds out by giving the terms values that tell when they are looked at.
func usesOf(text string, schema filter.Schema[*Deployment]) []use {
	var looked use
	tells := func(u use) func(*Deployment) string {
		return func(*Deployment) string {
			looked = u
			return ""
		}
	}
	telling := filter.Schema[*Deployment]{
		Fields: map[string]filter.Field[*Deployment]{}, Names: []func(*Deployment) string{tells(ofNames)}, At: schema.At,
		Tag: func(*Deployment, string) string {
			looked = ofPlace
			return ""
		},
	}
	for key, field := range schema.Fields {
		field.Get = tells(useOf(key))
		telling.Fields[key] = field
	}
	f, err := filter.Parse(text, telling)
	if err != nil { // it was parsed before
		return nil
	}
	terms := f.Terms()
	uses := make([]use, len(terms))
	for i := range terms {
		looked = ofRow
		terms[i].Match(nil)
		uses[i] = looked
	}
	return uses
}

func useOf(key string) use {
	switch key {
	case "cluster":
		return ofPlace
	case "service", "namespace", "source":
		return ofWork
	}
	return ofRow
}

func placeOf(d *Deployment) (*Place, int) { return d.Place, d.Place.number }

func workOf(d *Deployment) (*Work, int) { return d.Work, d.Work.number }

// once asks a test once for all rows that share something, which has a number. What is shared does not change, so a row whose
// share is another is asked anew.
func once[K comparable](test func(*Deployment) bool, of func(*Deployment) (K, int)) func(*Deployment) bool {
	type answer struct {
		of   K
		fits bool
	}
	var known []answer
	return func(d *Deployment) bool {
		share, number := of(d)
		for number >= len(known) {
			known = append(known, answer{})
		}
		if known[number].of != share {
			known[number] = answer{share, test(d)}
		}
		return known[number].fits
	}
}

// namesOnce is the term of this number, which looks at services' and clusters' names: it holds when one of the two fits, or,
// turned round, when neither does.
func namesOnce(text string, schema filter.Schema[*Deployment], number int) func(*Deployment) bool {
	within := func(names ...func(*Deployment) string) func(*Deployment) bool {
		schema.Names = names
		f, err := filter.Parse(text, schema)
		if err != nil { // it was parsed before
			return func(*Deployment) bool { return false }
		}
		return f.Terms()[number].Match
	}
	service := once(within(func(d *Deployment) string { return d.Service }), workOf)
	cluster := once(within(func(d *Deployment) string { return d.Cluster }), placeOf)
	if turned := within()(nil); turned { // it holds where there are no names
		return func(d *Deployment) bool { return service(d) && cluster(d) }
	}
	return func(d *Deployment) bool { return service(d) || cluster(d) }
}
