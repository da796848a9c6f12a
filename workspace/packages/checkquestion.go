package packages

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// Types are the types of questions.
func Types() []string {
	return []string{TypeString, TypeInt, TypeNumber, TypeBool, TypeEnum, TypeList, TypeMap, TypeSecret}
}

func (c *checker) questions() {
	list := c.pkg.Spec.Questions
	if !c.atMost("spec.questions", len(list), maxQuestions) {
		return
	}
	seen := map[string]bool{}
	for i := range list {
		q, field := &list[i], fmt.Sprintf("spec.questions[%d]", i)
		c.variable(field+".name", q.Name)
		c.once(seen, field+".name", "question", q.Name)
		if q.Type != "" && !slices.Contains(Types(), q.Type) {
			continue // reported by the decoder
		}
		c.line(field+".prompt", q.Prompt)
		c.rules(field, q)
		c.initial(field, q, i)
		c.condition(field+".when", q.When, scope{questions: i, asking: true})
	}
}

// rules checks what a question says of its answers.
func (c *checker) rules(field string, q *Question) {
	if (q.Type == TypeEnum) != (len(q.Options) > 0) {
		c.Fault(field+".options", "an enum has options, and no other type", "options do not fit type %s", q.Type)
	}
	if len(slices.Compact(slices.Sorted(slices.Values(q.Options)))) < len(q.Options) || slices.Contains(q.Options, "") {
		c.Fault(field+".options", "keep one of each", "options that are empty or equal")
	}
	textual := slices.Contains([]string{TypeString, TypeList, TypeMap, TypeSecret}, q.Type)
	if q.Pattern != "" {
		if _, err := regexp.Compile(q.Pattern); err != nil || len(q.Pattern) > maxPattern || !textual {
			c.Fault(field+".pattern", "write a regular expression (RE2) for a string, list, map or secret", "not a pattern for type %s: %s", q.Type, reason(err))
		}
	}
	if (q.Min != nil || q.Max != nil) && (q.Type == TypeBool || q.Type == TypeEnum) {
		c.Fault(field, "remove min and max", "type %s has no size", q.Type)
	}
	if q.Min != nil && q.Max != nil && *q.Min > *q.Max {
		c.Fault(field+".min", "make it smaller than max", "min is greater than max: no answer would do")
	}
	if q.Generate != nil && q.Type != TypeSecret {
		c.Fault(field+".generate", "give it a default instead", "only a secret is made up, not a %s", q.Type)
	}
	if q.Generate != nil && (q.Generate.Length < 0 || q.Generate.Length > maxGenerated || q.Generate.Length > 0 && q.Generate.Length < minGenerated) {
		c.Fault(field+".generate.length", fmt.Sprintf("use %d to %d", minGenerated, maxGenerated), "length %d is out of bounds", q.Generate.Length)
	}
}

func reason(err error) string {
	if err == nil {
		return "too long, or no text"
	}
	return err.Error()
}

// initial checks the default: as an answer when it is a value, for what it reads when it has expressions.
func (c *checker) initial(field string, q *Question, i int) {
	if q.Default == nil {
		return
	}
	if q.Type == TypeSecret {
		c.Fault(field+".default", "use generate, or have it answered", "a secret has no default: everybody can read the package")
		return
	}
	tree := c.expressions(field+".default", q.Default, scope{questions: i, asking: true})
	if tree == nil || len(tree.Leaves()) > 0 {
		return
	}
	value, err := tree.Eval(nil)
	if err != nil {
		return // reported by expressions
	}
	if _, rule := q.judge(value); rule != "" {
		c.Fault(field+".default", "", "the default will not do: %s", rule)
	}
}

// judge is an answer as its type has it, or the rule that it breaks.
func (q *Question) judge(value any) (any, string) {
	switch q.Type {
	case TypeBool:
		if b, ok := value.(bool); ok {
			return b, ""
		}
		return nil, "must be true or false"
	case TypeInt:
		n, ok := whole(value)
		if !ok {
			return nil, "must be a whole number"
		}
		return n, q.size("a number", float64(n))
	case TypeNumber:
		n, ok := number(value)
		if !ok {
			return nil, "must be a number"
		}
		return n, q.size("a number", n)
	case TypeEnum:
		switch value.(type) {
		case string, bool, int, int64, uint64: // YAML reads an option such as true or 3 as one of these where it has no quotes
			if s := fmt.Sprint(value); slices.Contains(q.Options, s) {
				return s, ""
			}
		}
		return nil, "must be one of " + strings.Join(q.Options, ", ")
	case TypeList:
		return q.judgeList(value)
	case TypeMap:
		return q.judgeMap(value)
	}
	s, ok := value.(string)
	if !ok {
		return nil, "must be a text"
	}
	return s, q.text(s)
}

func (q *Question) judgeList(value any) (any, string) {
	var list []any
	switch v := value.(type) {
	case []any:
		list = v
	case []string:
		for _, s := range v {
			list = append(list, s)
		}
	default:
		return nil, "must be a list of texts"
	}
	for _, item := range list {
		s, ok := item.(string)
		if !ok {
			return nil, "must be a list of texts"
		}
		if rule := q.pattern(s); rule != "" {
			return nil, "each " + rule
		}
	}
	return append([]any{}, list...), q.size("a list", float64(len(list)))
}

func (q *Question) judgeMap(value any) (any, string) {
	result := map[string]any{}
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			result[key] = item
		}
	case map[string]string:
		for key, item := range v {
			result[key] = item
		}
	default:
		return nil, "must be a map of texts"
	}
	for _, item := range result {
		s, ok := item.(string)
		if !ok {
			return nil, "must be a map of texts"
		}
		if rule := q.pattern(s); rule != "" {
			return nil, "each value " + rule
		}
	}
	return result, q.size("a map", float64(len(result)))
}

func (q *Question) text(s string) string {
	if rule := q.pattern(s); rule != "" {
		return rule
	}
	return q.size("a text", float64(len([]rune(s))))
}

func (q *Question) pattern(s string) string {
	if q.Pattern == "" {
		return ""
	}
	whole, err := regexp.Compile(`\A(?:` + q.Pattern + `)\z`)
	if err != nil {
		return "must match a pattern that is none"
	}
	if !whole.MatchString(s) {
		return "must match " + q.Pattern
	}
	return ""
}

// size checks min and max; of what is not a number they are of its length.
func (q *Question) size(what string, n float64) string {
	unit := map[string]string{"a text": " characters", "a list": " entries", "a map": " entries"}[what]
	switch {
	case q.Min != nil && n < *q.Min:
		return fmt.Sprintf("must be at least %v%s", *q.Min, unit)
	case q.Max != nil && n > *q.Max:
		return fmt.Sprintf("must be at most %v%s", *q.Max, unit)
	}
	return ""
}

func whole(value any) (int64, bool) {
	switch v := value.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	}
	return 0, false
}

func number(value any) (float64, bool) {
	if f, ok := value.(float64); ok {
		return f, !math.IsNaN(f) && !math.IsInf(f, 0)
	}
	n, ok := whole(value)
	return float64(n), ok
}
