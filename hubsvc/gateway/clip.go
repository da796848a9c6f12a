package gateway

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pluralsh/plural/api"
)

// What an agent says is a stranger's text: a service's message may quote any manifest.
const (
	// maxEntries bounds services and their problems before anything is decoded: two bytes make an entry, and each costs a
	// hundred in memory.
	maxEntries  = 50_000
	maxServices = 10_000
	maxProblems = 50
	maxMessage  = 1024
	maxName     = 253
)

// checkEntries counts the entries of a report's lists without decoding it. What is malformed the decoder refuses.
func checkEntries(body []byte) error {
	services := (*api.Report)(nil).ProtoReflect().Descriptor().Fields().ByName("services")
	problems := services.Message().Fields().ByName("problems")
	n := 0
	for service := range entries(body, services.Number()) {
		n++
		for range entries(service, problems.Number()) {
			n++
		}
		if n > maxEntries {
			return fmt.Errorf("report has more than %d entries", maxEntries)
		}
	}
	return nil
}

// entries walks the length-delimited fields of one number.
func entries(message []byte, number protowire.Number) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(message) > 0 {
			num, kind, tag := protowire.ConsumeTag(message)
			if tag < 0 {
				return
			}
			size := protowire.ConsumeFieldValue(num, kind, message[tag:])
			if size < 0 {
				return
			}
			if num == number && kind == protowire.BytesType {
				value, _ := protowire.ConsumeBytes(message[tag:])
				if !yield(value) {
					return
				}
			}
			message = message[tag+size:]
		}
	}
}

// clip bounds every text and list of a report.
func clip(r *api.Report) {
	r.AgentVersion = short(r.GetAgentVersion(), 64)
	r.KubernetesVersion = short(r.GetKubernetesVersion(), 64)
	r.Boot = short(r.GetBoot(), 64)
	r.Root = short(r.GetRoot(), 64)
	r.Services = first(r.GetServices(), maxServices)
	for _, s := range r.GetServices() {
		s.Service = short(s.GetService(), maxName)
		s.Key = short(s.GetKey(), 128)
		s.AppliedKey = short(s.GetAppliedKey(), 128)
		s.Message = short(s.GetMessage(), maxMessage)
		s.Problems = first(s.GetProblems(), maxProblems)
		for _, p := range s.GetProblems() {
			p.Kind = short(p.GetKind(), maxName)
			p.Namespace = short(p.GetNamespace(), maxName)
			p.Name = short(p.GetName(), maxName)
			p.Message = short(p.GetMessage(), maxMessage)
		}
	}
}

// first cuts a list in a way that frees the rest.
func first[T any](list []T, most int) []T {
	if len(list) <= most {
		return list
	}
	return slices.Clone(list[:most])
}

func short(s string, most int) string {
	if len(s) > most {
		s = s[:most-3] + "..."
	}
	return strings.ToValidUTF8(s, "")
}
