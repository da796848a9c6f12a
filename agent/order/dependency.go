package order

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/pluralsh/plural/agent/object"
)

// maxDependencies bounds what one object can wait for.
const maxDependencies = 1000

func (r *reader) readDependencies(turn *Turn, annotation string, entries []string, parse func(string) (object.ID, bool)) {
	for _, entry := range entries {
		id, ok := parse(entry)
		if !ok {
			r.fail(annotation, entry, "GROUP/namespaces/NAMESPACE/KIND/NAME, or GROUP/KIND/NAME for what has no namespace; "+
				"the core group is empty")
			return
		}
		if !slices.Contains(turn.After, id) {
			turn.After = append(turn.After, id)
		}
		if len(turn.After) > maxDependencies {
			r.fail(annotation, entry, fmt.Sprintf("at most %d objects", maxDependencies))
			return
		}
	}
}

// parseDependency reads an object as config.kubernetes.io/depends-on names it: "apps/namespaces/web/Deployment/db",
// "/namespaces/web/Secret/db", "/Namespace/web".
func parseDependency(entry string) (object.ID, bool) {
	var id object.ID
	fields := strings.Split(entry, "/")
	switch {
	case len(fields) == 3:
		id = object.ID{Group: fields[0], Kind: fields[1], Name: fields[2]}
	case len(fields) == 5 && fields[1] == "namespaces":
		id = object.ID{Group: fields[0], Namespace: fields[2], Kind: fields[3], Name: fields[4]}
		if id.Namespace == "" {
			return object.ID{}, false
		}
	}
	return id, namesAnObject(id)
}

// namesAnObject is false for what no object can be called.
func namesAnObject(id object.ID) bool {
	for _, part := range []string{id.Group, id.Kind, id.Namespace, id.Name} {
		if strings.ContainsFunc(part, func(r rune) bool { return unicode.IsSpace(r) || r == '/' }) {
			return false
		}
	}
	return id.Kind != "" && id.Name != ""
}

// parseOwnDependency also reads an object as this program prints it: "Deployment.apps web/db".
func parseOwnDependency(entry string) (object.ID, bool) {
	if !strings.Contains(entry, " ") {
		return parseDependency(entry)
	}
	id, err := object.Parse(entry)
	return id, err == nil && namesAnObject(id)
}
