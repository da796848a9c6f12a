package tables

import (
	"maps"
	"slices"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/model"
)

const (
	// maxWords is how many words are offered, maxRead how many rows are read to find some.
	maxWords = 100
	maxRead  = 20_000
)

// Words complete the last word of a filter: keys, tags and names, and behind a key its values.
func (t *table[T]) Words(text string) []string {
	cut := strings.LastIndexByte(text, ' ') + 1
	word := text[cut:]
	if strings.HasSuffix(strings.TrimRight(text[:cut], " "), "-l") {
		return t.selector(word)
	}
	sign := word[:len(word)-len(strings.TrimLeft(word, "!-"))]
	word = word[len(sign):]
	if name, ok := strings.CutPrefix(word, "@"); ok && t.list.Schema().At != "" {
		return offer(sign+"@", name, t.clusterNames())
	}
	if name, value, ok := strings.Cut(word, ":"); ok {
		done := value[:strings.LastIndexByte(value, ',')+1]
		return offer(sign+name+":"+done, value[len(done):], t.values(name))
	}
	return slices.Concat(offer(sign, word, t.names(":")), offer(sign, word, t.ownNames()))
}

// selector completes tags behind -l.
func (t *table[T]) selector(word string) []string {
	done := word[:strings.LastIndexByte(word, ',')+1]
	word = word[len(done):]
	if name, value, ok := strings.Cut(word, "="); ok {
		return offer(done+name+"=", value, t.tagValues(name))
	}
	return offer(done, word, suffixed(t.tagNames(), "="))
}

// offer is what of a list begins with what was typed, behind what stands before it.
func offer(before, typed string, list []string) []string {
	var out []string
	for _, word := range list {
		if len(word) > len(typed) && strings.EqualFold(word[:len(typed)], typed) {
			if out = append(out, before+quoted(word)); len(out) == maxWords {
				break
			}
		}
	}
	return out
}

// quoted is a word as a filter has it.
func quoted(word string) string {
	if !strings.ContainsAny(word, "\" ,*\\") {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

// names are the keys of a filter, then the tags that no key hides.
func (t *table[T]) names(suffix string) []string {
	schema := t.list.Schema()
	keys := slices.Sorted(maps.Keys(schema.Fields))
	if schema.Tag != nil {
		for _, name := range t.tagNames() {
			if _, hidden := schema.Fields[strings.ToLower(name)]; hidden {
				name = "tag." + name
			}
			keys = append(keys, name)
		}
	}
	return suffixed(keys, suffix)
}

func suffixed(list []string, suffix string) []string {
	out := make([]string, len(list))
	for i, word := range list {
		out[i] = word + suffix
	}
	return out
}

// values are those that a key has, of the rows that are known.
func (t *table[T]) values(name string) []string {
	schema := t.list.Schema()
	field, ok := schema.Fields[strings.ToLower(name)]
	switch {
	case !ok && schema.Tag == nil:
		return nil
	case !ok:
		return t.tagValues(strings.TrimPrefix(name, "tag."))
	case field.Words != nil:
		return field.Words
	}
	switch strings.ToLower(name) {
	case "cluster":
		return t.clusterNames()
	case "service":
		return distinct(t.Fleet.Services, func(s *v1.Service) string { return s.Name })
	case "message", "error", "url":
		return nil // nobody types them whole
	}
	return distinct(t.list, field.Get)
}

func (t *table[T]) clusterNames() []string {
	return distinct(t.Fleet.Clusters, func(c *v1.Cluster) string { return c.Name })
}

// ownNames are those that a word without a key is looked for in. Deployments have those of clusters and services.
func (t *table[T]) ownNames() []string {
	if any(t.list) == any(t.Fleet.Deployments) || any(t.list) == any(t.Fleet.Events) {
		services := distinct(t.Fleet.Services, func(s *v1.Service) string { return s.Name })
		return append(services, t.clusterNames()...)
	}
	var out []string
	for _, name := range t.list.Schema().Names {
		out = append(out, distinct(t.list, name)...)
	}
	return out
}

func (t *table[T]) tagNames() []string {
	met := map[string]bool{}
	each(t.Fleet.Clusters, func(c *v1.Cluster) {
		for name := range c.Tags {
			met[name] = true
		}
	})
	return slices.Sorted(maps.Keys(met))
}

func (t *table[T]) tagValues(name string) []string {
	return distinct(t.Fleet.Clusters, func(c *v1.Cluster) string { return c.Tags[name] })
}

// distinct are the values of a list's rows, each once, in order. Most come in order already.
func distinct[T any](list *model.List[T], value func(*T) string) []string {
	var out []string
	ordered := true
	each(list, func(row *T) {
		word := value(row)
		if word == "" {
			return
		}
		if last := len(out) - 1; last >= 0 {
			if out[last] == word {
				return
			}
			ordered = ordered && out[last] < word
		}
		out = append(out, word)
	})
	if !ordered {
		slices.Sort(out)
	}
	return slices.Compact(out)
}

// each reads the rows of a list, whatever is picked of them now.
func each[T any](list *model.List[T], read func(*T)) {
	left := maxRead
	for row := range list.All() {
		if left--; left < 0 {
			return
		}
		read(row)
	}
}
