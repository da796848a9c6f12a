package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// page draws the hub's page, of the same fleet, as a browser shows it to whoever has asked for it in the terminal.
func (s *studio) page(ctx context.Context) error {
	// hub open opens a browser on a terminal alone: this one writes down what it is to open.
	browser, asked := filepath.Join(s.home, "browser"), filepath.Join(s.home, "asked")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\nprintf %s \"$1\" > "+asked+".new && mv "+asked+".new "+asked+"\n"), 0o700); err != nil { //nolint:gosec // a program
		return fmt.Errorf("write a browser: %w", err)
	}
	if err := os.Setenv("BROWSER", browser); err != nil {
		return fmt.Errorf("set the browser: %w", err)
	}
	t := newSession(ctx, 100, 10, s.home, "fleet")
	if err := t.shell("plural", "hub", "open"); err != nil {
		return err
	}
	address, err := os.ReadFile(asked)
	if err != nil {
		return fmt.Errorf("no page was opened: %w", err)
	}

	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox, chromedp.UserDataDir(filepath.Join(s.home, "profile")))
	ctx, cancel := chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	const login = "#login:not([hidden]):enabled"
	// A click that gives a window the focus is no answer to the page.
	_, err = chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	if err == nil {
		err = chromedp.Do(ctx, chromedp.Navigate(string(address)), chromedp.WaitVisible(login), chromedp.Click(login), chromedp.WaitVisible(".rows .row"))
	}
	if err != nil {
		return fmt.Errorf("log in to the page: %w", err)
	}
	base, _, _ := strings.Cut(string(address), "/auth/")
	for _, picture := range []struct {
		name, path, shows, scheme string
		width, height             int64
	}{
		{"page", "/fleet", ".health.failed", "light", 1200, 420},
		{"page-dark", "/fleet?filter=!health:healthy", ".rows .row", "dark", 1200, 420},
		{"page-tree", "/deployments/edge-2/podinfo?tab=objects", ".twig:nth-child(1)", "light", 1200, 420},
		{"page-diff", "/deployments/edge-2/podinfo?tab=diff", ".fields", "light", 1200, 420},
		{"page-narrow", "/fleet", ".rows .row", "light", 390, 640},
	} {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: picture.scheme}},
		})
		if err == nil {
			_, err = chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
				Width: picture.width, Height: picture.height, DeviceScaleFactor: 1,
			})
		}
		if err == nil {
			err = chromedp.Do(ctx, chromedp.Navigate(base+picture.path), chromedp.WaitVisible(picture.shows), chromedp.WaitVisible(".pulse .figure"))
		}
		if err != nil {
			return fmt.Errorf("show %s: %w", picture.path, err)
		}
		shot, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		if err != nil {
			return fmt.Errorf("draw %s: %w", picture.name, err)
		}
		path := filepath.Join(s.out, picture.name+".png")
		if err := os.WriteFile(path, shot, 0o644); err != nil { //nolint:gosec // a picture is for everybody
			return fmt.Errorf("write picture: %w", err)
		}
		fmt.Printf("%s  %d kB\n", path, len(shot)/1000)
	}
	return nil
}
