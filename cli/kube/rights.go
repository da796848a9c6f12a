package kube

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// refused is how an API server says that its RBAC does not let one of the fleet's people do something.
var refused = regexp.MustCompile(`\(Forbidden\).* User "(plural:[^"]+)" cannot `)

// maxOverheard bounds what is remembered of a program's errors, in bytes.
const maxOverheard = 16 << 10

// overhearing passes on what kubectl says of errors, and remembers the end of it.
type overhearing struct {
	to   io.Writer
	last []byte
}

func (o *overhearing) Write(p []byte) (int, error) {
	o.last = append(o.last, p...)
	o.last = o.last[max(0, len(o.last)-maxOverheard):]
	return o.to.Write(p)
}

// isKubectl says whether a program is the one whose errors read so.
func isKubectl(program string) bool {
	return strings.TrimSuffix(filepath.Base(program), ".exe") == "kubectl"
}

// explain says what the cluster's RBAC has to grant, where it refused. A cluster that was registered by hand grants nothing to anybody.
func (w *way) explain(ctx context.Context, f *cmdutil.Factory, said *overhearing) {
	user := refused.FindSubmatch(said.last)
	if user == nil {
		return
	}
	subject, answer, role := "user "+string(user[1]), "user:"+strings.TrimPrefix(string(user[1]), "plural:"), "view"
	if me, err := w.hub.Me(ctx); err == nil && me.Operator {
		subject, answer, role = "group plural:operators", "", "cluster-admin"
	} else if err == nil && len(me.Groups) > 0 {
		subject, answer = "group plural:"+me.Groups[0], me.Groups[0]
	}
	kind, name, _ := strings.Cut(subject, " ")
	f.Say("  cause: RBAC of cluster %s does not grant %s what was asked for; the hub does", ui.Clean(w.cluster), ui.Clean(string(user[1])))
	fix := cmdutil.Grant(role, kind, name)
	if answer != "" {
		fix += fmt.Sprintf("; or, where its package agent is installed, its answer people: %s=%s", answer, role)
	}
	f.Say("  fix: %s", ui.Clean(fix))
}
