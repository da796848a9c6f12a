package cmdutil

import (
	"cmp"
	"io"

	"github.com/pluralsh/plural/cli/settings"
)

// Pager is the command of the program that shows long texts, or nothing: PLURAL_PAGER or what plural config has, then PAGER, else
// less.
func (f *Factory) Pager() string {
	if f.NoPager {
		return ""
	}
	return cmp.Or(f.Setting(settings.Pager), f.Getenv("PAGER"), "less -FRX")
}

// Paged runs what prints a long text to IO.Out, which goes through the pager meanwhile.
func (f *Factory) Paged(run func() error) error {
	whole := f.IO
	defer func() { f.IO = whole }()
	return whole.Paged(func(w io.Writer) error {
		paged := *whole
		paged.Out, paged.Pager = w, "" // what is in one pager needs no other
		f.IO = &paged
		return run()
	})
}
