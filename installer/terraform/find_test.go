package terraform_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/installer/terraform"
	"github.com/pluralsh/plural/test/support/needs"
)

// program puts one on PATH that says which version it is: what Find asks for is all that it can do.
func program(t *testing.T, dir, name, says string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	text := fmt.Sprintf("#!/bin/sh\necho '%s'\n", says)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindTakesTheProgramThatAModuleAsksFor(t *testing.T) {
	const tf, tofu = "Terraform v1.11.4\non linux_amd64", "OpenTofu v1.12.6\non linux_amd64"
	for name, test := range map[string]struct {
		programs  map[string]string
		variable  string
		want      terraform.Want
		got, fail string
	}{
		"nothing": {
			nil, "",
			terraform.Want{},
			"",
			"find terraform or tofu: it is not on PATH: install it, or let PLURAL_TERRAFORM name the program",
		},
		"no terraform": {
			nil, "",
			terraform.Want{Product: "terraform"},
			"",
			"find terraform: it is not on PATH: install it, or let PLURAL_TERRAFORM name the program",
		},
		"any takes terraform": {
			map[string]string{"terraform": tf, "tofu": tofu},
			"",
			terraform.Want{Product: "any"},
			"terraform 1.11.4", "",
		},
		"any takes tofu": {map[string]string{"tofu": tofu}, "", terraform.Want{}, "tofu 1.12.6", ""},
		"any takes what fits": {
			map[string]string{"terraform": tf, "tofu": tofu},
			"",
			terraform.Want{Version: ">=1.12"},
			"tofu 1.12.6", "",
		},
		"tofu is asked for": {
			map[string]string{"terraform": tf, "tofu": tofu},
			"",
			terraform.Want{Product: "tofu"},
			"tofu 1.12.6", "",
		},
		"tofu behind its rival's name": {map[string]string{"terraform": tofu}, "", terraform.Want{Product: "tofu"}, "tofu 1.12.6", ""},
		"tofu where terraform is asked for": {
			map[string]string{"tofu": tofu},
			"",
			terraform.Want{Product: "terraform"},
			"",
			"find terraform: only tofu 1.12.6 is here (DIR/tofu), and the module asks for terraform: install it, or let PLURAL_TERRAFORM name the program",
		},
		"too old": {
			map[string]string{"terraform": tf},
			"",
			terraform.Want{Version: ">=1.12"},
			"",
			"find terraform: DIR/terraform is version 1.11.4, and the module asks for >=1.12: install one in that range, or let PLURAL_TERRAFORM name it",
		},
		"too old for us": {
			map[string]string{"terraform": "Terraform v0.14.11"},
			"",
			terraform.Want{},
			"",
			"find terraform: DIR/terraform is version 0.14.11, and the module asks for >=1.1.0-0: install one in that range, or let PLURAL_TERRAFORM name it",
		},
		"named": {map[string]string{"terraform": tf, "mine": tofu}, "mine", terraform.Want{}, "tofu 1.12.6", ""},
		"named, and of the other product": {
			map[string]string{"terraform": tf, "mine": tofu},
			"mine",
			terraform.Want{Product: "terraform"},
			"",
			"find terraform: only tofu 1.12.6 is here (DIR/mine), and the module asks for terraform: install it, or let PLURAL_TERRAFORM name the program",
		},
		"named, and nowhere": {
			nil, "nowhere",
			terraform.Want{},
			"",
			`find terraform or tofu: PLURAL_TERRAFORM is "nowhere": exec: "nowhere": executable file not found in $PATH: ` +
				"let PLURAL_TERRAFORM name a program of terraform or tofu, or unset it",
		},
		"named, and something else": {
			map[string]string{"mine": "kubectl v1"},
			"mine",
			terraform.Want{},
			"",
			`find terraform or tofu: PLURAL_TERRAFORM is "mine": DIR/mine does not say that it is Terraform or OpenTofu: ` +
				"let PLURAL_TERRAFORM name a program of terraform or tofu, or unset it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", dir)
			t.Setenv("PLURAL_TERRAFORM", test.variable)
			for name, says := range test.programs {
				program(t, dir, name, says)
			}
			tool, err := terraform.Find(t.Context(), test.want)
			if err != nil {
				if got := strings.ReplaceAll(told(err), dir, "DIR"); got != test.fail {
					t.Errorf("got  %s\nwant %s", got, test.fail)
				}
				return
			}
			if got := fmt.Sprintf("%s %s", tool.Product, tool.Version); got != test.got {
				t.Errorf("got %q, want %q", got, test.got)
			}
		})
	}
}

func TestFindKnowsTheRealProgram(t *testing.T) {
	t.Setenv("PLURAL_TERRAFORM", needs.Terraform(t))
	if _, err := terraform.Find(t.Context(), terraform.Want{Version: ">=1.5"}); err != nil {
		t.Fatal(err)
	}
	var old *terraform.VersionError
	if _, err := terraform.Find(t.Context(), terraform.Want{Version: ">=99"}); !errors.As(err, &old) {
		t.Fatalf("got %v", err)
	}
}

func TestInitThatFailsSaysWhatWouldHelp(t *testing.T) {
	const asks = `terraform {
  required_providers {
    nothing = { source = "example.com/nobody/nothing" }
  }
}`
	const unread = "unread"
	for name, test := range map[string]struct {
		module, cli, want, tofu string
		backend                 map[string]any
	}{
		"no network": {
			module: strings.ReplaceAll(asks, "example.com/nobody/nothing", "hashicorp/aws"), cli: "",
			want: "terraform init: Failed to query available provider packages: Could not retrieve the list of available versions for provider hashicorp/aws: ",
			tofu: "terraform init: Failed to resolve provider packages: Could not resolve provider hashicorp/aws: ",
		},
		"not in the mirror": {module: asks, cli: `provider_installation {
  filesystem_mirror { path = "MIRROR" }
}`, want: "terraform init: Failed to query available provider packages: Could not retrieve the list of available versions for provider " +
			"example.com/nobody/nothing: provider example.com/nobody/nothing was not found in any of the search locations: "},
		"another version of terraform": {
			module: `terraform { required_version = ">= 99" }`, want: "terraform init: main.tf:1: Unsupported Terraform Core version: This configuration does not support Terraform version ",
			tofu: unread,
		},
		"settings without a backend": {
			module: "", backend: map[string]any{"bucket": "x"},
			want: "terraform init: the step gives backend settings, and the module has no backend block: add one to the module",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tool := find(t)
			t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
			t.Setenv("https_proxy", "http://127.0.0.1:1")
			mirror := t.TempDir()
			cli := strings.ReplaceAll(test.cli, "MIRROR", mirror)
			if err := os.WriteFile(os.Getenv("TF_CLI_CONFIG_FILE"), []byte(cli), 0o600); err != nil {
				t.Fatal(err)
			}
			m := module(t, test.module)
			m.Backend = test.backend
			if tool.Product == terraform.OpenTofu && test.tofu != "" {
				test.want = test.tofu
			}
			work, err := tool.Prepare(t.Context(), m, nil)
			if test.want == unread { // OpenTofu does not read required_version
				if err != nil || work.Close() != nil {
					t.Errorf("%s minds what it does not read: %v", tool.Product, err)
				}
				return
			}
			var failed *terraform.FailedError
			if !errors.As(err, &failed) || !strings.HasPrefix(strings.ReplaceAll(told(err), mirror, "MIRROR"), test.want) || failed.Fix() == "" {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}
