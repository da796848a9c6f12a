package main

import (
	"context"
	"errors"
	"time"

	"filippo.io/age"
	"helm.sh/helm/v4/pkg/chart/common"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// rendition is what one side made of an item.
type rendition struct {
	objects  []object
	warnings []string
	err      error
	took     time.Duration
}

// newRenderer renders as an agent does, from bundles and in child processes, where nothing that is sealed can be opened.
func newRenderer(files *snapshot.Snapshot, o options) (*preview.Renderer, error) {
	renderer, err := preview.New(files, func() ([]age.Identity, error) {
		return nil, errors.New("nothing is unsealed here")
	})
	if err != nil {
		return nil, err
	}
	var versions []string
	if len(o.apiVersions) > 0 {
		versions = append([]string(common.DefaultVersionSet), o.apiVersions...)
	}
	return renderer.On(o.kubeVersion, versions), nil
}

// renderOurs renders one deployment.
func renderOurs(ctx context.Context, renderer *preview.Renderer, d *resolve.Deployment) rendition {
	if d.Hold != nil {
		return rendition{err: &render.Error{
			Reason: render.Invalid, File: d.Hold.File, Line: d.Hold.Line, Message: d.Hold.Message, Fix: d.Hold.Fix,
		}}
	}
	started := time.Now()
	made, err := renderer.Render(ctx, d)
	took := time.Since(started)
	if err != nil {
		return rendition{err: err, took: took}
	}
	r := rendition{warnings: made.Warnings, took: took}
	for _, each := range made.Objects {
		r.objects = append(r.objects, each.Object)
	}
	return r
}
