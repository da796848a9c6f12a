package act

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// objects are actions on live objects, which kubectl carries out by way of the hub: the cluster's own rights decide.
func (d *Desk) objects() []Action {
	deleting := func(name string) []string { return []string{"delete", name, "--wait=false", "--ignore-not-found"} }
	restarting := func(name string) []string { return []string{"rollout", "restart", name} }
	all := []Action{
		{Binding: bind("s", "shell in pod"), Name: "open a shell in", Terminal: true, Applies: one("Pod"), Needs: container},
		{
			Binding: bind("s", "scale"), Name: "scale", Care: Ask, Applies: one("Deployment", "StatefulSet", "ReplicaSet"), Needs: replicas,
			Heals: true,
		},
		{
			Binding: bind("F", "forward a port"), Name: "forward a port to", Background: true,
			Applies: one("Pod", "Service", "Deployment", "StatefulSet"), Needs: port,
		},
		{
			Binding: bind("R", "restart pods"), Name: "restart the pods of", Care: Ask,
			Applies: each("Deployment", "StatefulSet", "DaemonSet"), Commands: perObject(restarting),
		},
		{Binding: bind("R", "restart pod"), Name: "delete", Care: Ask, Applies: each("Pod"), Commands: perObject(deleting)},
		{
			Binding: deletes("delete object"), Name: "delete", Care: Ask,
			Applies: func(all []pane.Subject) bool { return every(all, isObject) }, Commands: perObject(deleting), Heals: true,
		},
	}
	for i := range all {
		all[i].Writes, all[i].Asks, all[i].InCluster, all[i].About = true, true, true, about
	}
	return all
}

func isObject(s pane.Subject) bool {
	return s.Kind == pane.KindObject && s.Object != nil && s.Object.Resource != ""
}

// each says whether subjects are objects of these kinds, which are Kubernetes' own.
func each(kinds ...string) func([]pane.Subject) bool {
	return func(all []pane.Subject) bool {
		return every(all, func(s pane.Subject) bool {
			return isObject(s) && (s.Object.Group == "" || s.Object.Group == "apps") && slices.Contains(kinds, s.Object.Kind)
		})
	}
}

func one(kinds ...string) func([]pane.Subject) bool {
	of := each(kinds...)
	return func(all []pane.Subject) bool { return len(all) == 1 && of(all) }
}

// perObject are kubectl's commands about one object each.
func perObject(words func(name string) []string) func([]pane.Subject) ([][]string, error) {
	return func(all []pane.Subject) ([][]string, error) {
		var out [][]string
		for i := range all {
			args, err := kubectl(&all[i], words(resource(all[i].Object))...)
			if err != nil {
				return nil, err
			}
			out = append(out, args)
		}
		return out, nil
	}
}

// kubectl are the arguments by which kubectl does something in an object's namespace. Whoever answers for the hub could send names that
// are flags.
func kubectl(s *pane.Subject, words ...string) ([]string, error) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		return nil, errors.New("kubectl is not on PATH; install it from https://kubernetes.io/docs/tasks/tools")
	}
	o := s.Object
	for _, name := range []string{o.Resource, o.Group, o.Namespace, o.Name} {
		if !isValue(name) {
			return nil, fmt.Errorf("%q is no name of an object", name)
		}
	}
	args := []string{"kubectl", s.Cluster}
	if o.Namespace != "" {
		args = append(args, "--namespace", o.Namespace)
	}
	return append(args, words...), nil
}

// resource is an object as kubectl names it.
func resource(o *v1.Object) string {
	if o.Group == "" {
		return o.Resource + "/" + o.Name
	}
	return o.Resource + "." + o.Group + "/" + o.Name
}

// need is what a person has to say before an action has a command: where there is nothing to choose, Ask is empty.
type need struct {
	// Ask is what is asked for; Value stands there at first, and Words are offered.
	Ask, Value string
	Words      []string
	// Command are kubectl's words, made of what the person said.
	Command func(said string) ([]string, error)
}

// inShell has the shell that a container has: few have bash.
const inShell = "command -v bash >/dev/null && exec bash || exec sh"

// container asks for one of a pod, where there are several.
func container(o *v1.Object, live map[string]any) need {
	var names []string
	for _, c := range list(live, "spec", "containers") {
		name, _ := field(c, "name").(string)
		names = append(names, name)
	}
	n := need{Words: names, Command: func(said string) ([]string, error) {
		args := []string{"exec", "-it", o.Name}
		if said != "" {
			if len(names) > 0 && !slices.Contains(names, said) || !isValue(said) {
				return nil, fmt.Errorf("%s has no container %q", o.Name, said)
			}
			args = append(args, "--container", said)
		}
		return append(args, "--", "sh", "-c", inShell), nil
	}}
	if len(names) > 1 {
		n.Ask = "container of " + o.Name
		n.Value, _ = field(live, "metadata", "annotations", "kubectl.kubernetes.io/default-container").(string)
		if n.Value == "" {
			n.Value = names[0]
		}
	}
	return n
}

// maxReplicas is more than anybody means to type.
const maxReplicas = 10_000

// replicas asks how many there are to be.
func replicas(o *v1.Object, live map[string]any) need {
	n := need{Ask: "replicas of " + o.Name, Command: func(said string) ([]string, error) {
		count, err := strconv.Atoi(said)
		if err != nil || count < 0 || count > maxReplicas {
			return nil, fmt.Errorf("%q is no number of replicas: 0 to %d", said, maxReplicas)
		}
		return []string{"scale", resource(o), "--replicas=" + strconv.Itoa(count)}, nil
	}}
	if now, ok := field(live, "spec", "replicas").(float64); ok {
		n.Value = strconv.Itoa(int(now))
	}
	return n
}

// port asks for a port of this machine and one of the object.
func port(o *v1.Object, live map[string]any) need {
	n := need{Ask: "LOCAL:REMOTE port of " + o.Name, Command: func(said string) ([]string, error) {
		if !isPorts(said) {
			return nil, fmt.Errorf("%q is no port: 8080:80, or :80 for a free one of this machine", said)
		}
		return []string{"port-forward", "--address", "127.0.0.1", resource(o), said}, nil
	}}
	var found []any
	if o.Kind == "Service" {
		for _, p := range list(live, "spec", "ports") {
			found = append(found, field(p, "port"))
		}
	}
	containers := append(list(live, "spec", "containers"), list(live, "spec", "template", "spec", "containers")...)
	for _, c := range containers {
		for _, p := range list(c, "ports") {
			found = append(found, field(p, "containerPort"))
		}
	}
	for _, p := range found {
		number, ok := p.(float64)
		if !ok {
			continue
		}
		local := int(number)
		if local < 1024 {
			local += 8000
		}
		n.Words = append(n.Words, fmt.Sprintf("%d:%d", local, int(number)))
	}
	if len(n.Words) > 0 {
		n.Value = n.Words[0]
	}
	return n
}

// isPorts says whether a text is a port, or LOCAL:REMOTE, where LOCAL may be missing.
func isPorts(text string) bool {
	local, remote, two := strings.Cut(text, ":")
	if !two {
		local, remote = "", text
	}
	number := func(text string) bool {
		n, err := strconv.ParseUint(text, 10, 16)
		return err == nil && n > 0
	}
	return number(remote) && (local == "" || number(local))
}

// field is what lies below names, nil where there is nothing.
func field(in any, names ...string) any {
	for _, name := range names {
		m, _ := in.(map[string]any)
		in = m[name]
	}
	return in
}

func list(in any, names ...string) []any {
	items, _ := field(in, names...).([]any)
	return items
}
