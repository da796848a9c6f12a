package details

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// masked stands in the place of a value that nobody is to see.
const masked = "***"

// lastApplied holds what kubectl applied, a Secret's values with it.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// hide takes out of a live object what is not for a screen: the values of Secrets, and what says who owns which field, which is
// longer than the object. It says what it left out.
func hide(object map[string]any) (notes []string) {
	metadata, _ := object["metadata"].(map[string]any)
	if fields, ok := metadata["managedFields"].([]any); ok {
		delete(metadata, "managedFields")
		notes = append(notes, fmt.Sprintf("managedFields of %d managers are left out: plural why tells who owns what", len(fields)))
	}
	if object["kind"] != "Secret" || object["apiVersion"] != "v1" {
		return notes
	}
	for _, name := range []string{"data", "stringData"} {
		if values, ok := object[name].(map[string]any); ok {
			for key := range values {
				values[key] = masked
			}
		} else if object[name] != nil {
			object[name] = masked
		}
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok && annotations[lastApplied] != nil {
		annotations[lastApplied] = masked
	}
	return append(notes, "values of Secrets are masked")
}

// liveObject is one as its API server has it.
type liveObject struct{ fields map[string]any }

// at is what lies below names, nil where there is nothing.
func at(in any, names ...string) any {
	for _, name := range names {
		m, _ := in.(map[string]any)
		in = m[name]
	}
	return in
}

func (d *described) writeObject(f *facts, about pane.Subject) {
	o := about.Object
	f.fact("kind", o.Kind+" "+o.Group+"/"+o.Version)
	f.fact("name", o.Name)
	f.fact("namespace", o.Namespace)
	f.fact("cluster", about.Cluster)
	f.fact("service", about.Service)
	switch {
	case d.gone:
		f.styled("health", paint.Bad, "deleted")
		return
	case d.replaced(o):
		f.styled("health", paint.Busy, "deleted; what follows is the one of its name that was made since")
		made, err := time.Parse(time.RFC3339, text(at(d.live.fields, "metadata", "creationTimestamp")))
		if err == nil {
			f.ago("created", &made)
		}
		d.writeLive(f)
		return
	}
	if o.Health != v1.ObjectUnknown { // lists of one kind judge nothing
		glyph, style := f.look.Health(o.Health)
		f.styled("health", style, glyph+" "+string(o.Health))
	}
	f.fact("reason", o.Message)
	if o.Deleting || d.live != nil && at(d.live.fields, "metadata", "deletionTimestamp") != nil {
		f.styled("deleting", paint.Busy, "it is being deleted")
	}
	f.ago("created", o.Created)
	d.writeLive(f)
}

// replaced says that an object is gone, and another has its name.
func (d *described) replaced(o *v1.Object) bool {
	if d.live == nil || o.UID == "" {
		return false
	}
	uid := text(at(d.live.fields, "metadata", "uid"))
	return uid != "" && uid != o.UID
}

func (d *described) writeLive(f *facts) {
	if d.live != nil {
		d.live.write(f)
	}
	if len(d.events) > 0 {
		f.head("events")
	}
	for i := range d.events {
		e := &d.events[i]
		style := paint.Plain
		if e.Warning {
			style = paint.Busy
		}
		f.add(line{
			{paint.Faint, fmt.Sprintf("  %-12s ", cmdutil.Ago(f.now, &e.Time))},
			{style, kindOfEvent(e.Warning) + e.Reason},
			{paint.Plain, times(e.Count) + ": " + e.Message},
		})
	}
}

func kindOfEvent(warning bool) string {
	if warning {
		return "warning "
	}
	return ""
}

func times(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(" (%d times)", n)
}

func (o *liveObject) write(f *facts) {
	for _, name := range []string{"labels", "annotations"} {
		values, _ := at(o.fields, "metadata", name).(map[string]any)
		if len(values) == 0 {
			continue
		}
		f.head(name)
		secret := o.fields["kind"] == "Secret"
		for _, key := range slices.Sorted(maps.Keys(values)) {
			value := fmt.Sprint(values[key])
			if key == lastApplied {
				if value = "as kubectl applied it"; secret {
					value = masked
				}
			}
			f.add(line{{paint.Name, "  " + key + ": "}, {paint.Plain, value}})
		}
	}
	if o.fields["kind"] == "Secret" {
		values, _ := o.fields["data"].(map[string]any)
		f.fact("keys", strings.Join(slices.Sorted(maps.Keys(values)), ", "))
	}
	o.writeContainers(f)
	o.writeConditions(f)
}

func (o *liveObject) writeContainers(f *facts) {
	containers, _ := at(o.fields, "spec", "containers").([]any)
	if len(containers) == 0 || o.fields["kind"] != "Pod" {
		return
	}
	f.fact("node", text(at(o.fields, "spec", "nodeName")))
	f.fact("phase", text(at(o.fields, "status", "phase")))
	f.head("containers")
	statuses, _ := at(o.fields, "status", "containerStatuses").([]any)
	for _, c := range containers {
		name := text(at(c, "name"))
		f.add(line{{paint.Name, "  " + name + "  "}, {paint.Plain, text(at(c, "image"))}})
		for _, s := range statuses {
			if text(at(s, "name")) != name {
				continue
			}
			state, _ := at(s, "state").(map[string]any)
			for _, word := range slices.Sorted(maps.Keys(state)) {
				said := strings.TrimSpace(word + " " + text(at(state, word, "reason")) + " " + text(at(state, word, "message")))
				f.say(paint.Plain, fmt.Sprintf("    %s, ready %v, %v restarts", said, at(s, "ready"), at(s, "restartCount")))
			}
		}
	}
}

func (o *liveObject) writeConditions(f *facts) {
	conditions, _ := at(o.fields, "status", "conditions").([]any)
	if len(conditions) > 0 {
		f.head("conditions")
	}
	for _, c := range conditions {
		f.add(line{
			{paint.Name, "  " + text(at(c, "type")) + " "},
			{paint.Plain, text(at(c, "status"))},
			{paint.Faint, strings.TrimRight("  "+text(at(c, "reason"))+" "+text(at(c, "message")), " ")},
		})
	}
}

// text is a value that may not be there.
func text(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}
