package gateway

import (
	"strings"

	"github.com/pluralsh/plural/api"
)

// What an agent says is a stranger's text: a service's message may quote any manifest.
const (
	maxServices = 10_000
	maxProblems = 50
	maxMessage  = 1024
	maxName     = 253
)

// clip bounds every text and list of a report.
func clip(r *api.Report) {
	r.AgentVersion = short(r.GetAgentVersion(), 64)
	r.KubernetesVersion = short(r.GetKubernetesVersion(), 64)
	r.Boot = short(r.GetBoot(), 64)
	r.Root = short(r.GetRoot(), 64)
	r.Services = r.GetServices()[:min(len(r.GetServices()), maxServices)]
	for _, s := range r.GetServices() {
		s.Service = short(s.GetService(), maxName)
		s.Key = short(s.GetKey(), 128)
		s.AppliedKey = short(s.GetAppliedKey(), 128)
		s.Message = short(s.GetMessage(), maxMessage)
		s.Problems = s.GetProblems()[:min(len(s.GetProblems()), maxProblems)]
		for _, p := range s.GetProblems() {
			p.Kind = short(p.GetKind(), maxName)
			p.Namespace = short(p.GetNamespace(), maxName)
			p.Name = short(p.GetName(), maxName)
			p.Message = short(p.GetMessage(), maxMessage)
		}
	}
}

func short(s string, most int) string {
	if len(s) > most {
		s = s[:most-3] + "..."
	}
	return strings.ToValidUTF8(s, "")
}
