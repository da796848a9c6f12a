package compose

import "github.com/pluralsh/plural/workspace/packages"

// Facts are what the expressions of a package's questions can read, as an installation of that name: all variables but the
// answers.
func (w *World) Facts(installation string, p *packages.Package) map[string]any {
	return w.facts(installation, p)
}
