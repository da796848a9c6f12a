package console

import (
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// pointing is a pane whose one subject is told as it is known now: the pane may have been opened before anything was, or long ago.
type pointing struct {
	pane.Pointing
	fleet *model.Fleet
}

// Subjects are the pane's.
func (p pointing) Subjects() []pane.Subject {
	list := p.Pointing.Subjects()
	if len(list) != 1 {
		return list
	}
	return []pane.Subject{fresh(p.fleet, list[0])}
}

func fresh(f *model.Fleet, s pane.Subject) pane.Subject {
	switch s.Kind { //nolint:exhaustive // of others, nothing changes
	case pane.KindDeployment:
		if row := f.Deployments.Get(s.Cluster + "/" + s.Service); row != nil {
			s.Phase, s.Suspended, s.Token = row.Phase, row.Suspended, row.Token
		}
	case pane.KindService:
		if row := f.Services.Get(s.Name); row != nil {
			s.Phase, s.Suspended = row.Phase, row.Suspended
		}
	case pane.KindCluster:
		if row := f.Clusters.Get(s.Name); row != nil {
			s.Phase, s.Token = row.Phase, ""
			if row.Held != nil {
				s.Token = row.Held.Token
			}
		}
	}
	return s
}
