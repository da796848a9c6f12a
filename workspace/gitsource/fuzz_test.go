package gitsource

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
)

const someID = "1f0c4eb1a4d3c1a9b3c0e7d2f4a5b6c7d8e9f001"

func packet(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		switch line {
		case flushPacket, delimPacket:
			b.WriteString(line)
		default:
			fmt.Fprintf(&b, "%04x%s", len(line)+4, line)
		}
	}
	return b.String()
}

// FuzzGreeting feeds what a server says first, and its list of refs: never a panic, and only what was looked for is kept.
func FuzzGreeting(f *testing.F) {
	f.Add(packet("# service=git-upload-pack\n", flushPacket, "version 2\n", "agent=git/2\n", "ls-refs=unborn\n", "fetch=shallow\n", flushPacket))
	f.Add(packet(someID+" HEAD\x00side-band-64k shallow symref=HEAD:refs/heads/main\n", someID+" refs/heads/main\n", "shallow "+someID+"\n", flushPacket))
	f.Add(packet("0000000000000000000000000000000000000000 capabilities^{}\x00side-band-64k\n", flushPacket))
	f.Add(packet("version 1\n", someID+" refs/tags/v1\n", someID+" refs/tags/v1^{}\n", flushPacket))
	f.Add(packet(someID+" HEAD symref-target:refs/heads/main\n", "unborn HEAD\n", flushPacket))
	f.Add(packet("ERR access denied\n"))
	f.Add("0003")
	f.Add("ffff" + strings.Repeat("x", 100))
	f.Fuzz(func(t *testing.T, text string) {
		look := lookout{names: map[string]bool{"HEAD": true, "refs/heads/main": true}, ids: map[string]bool{someID: true}}
		g, err := readGreeting(strings.NewReader(text), look)
		if err == nil && (len(g.refs) > 2 || len(g.offered) > 1 || len(g.branches) > maxWants) {
			t.Errorf("kept %+v", g)
		}
		refs, _, err := readListing(strings.NewReader(text), look)
		if err != nil {
			return
		}
		for name, id := range refs {
			if !look.names[name] || !isID(id) {
				t.Errorf("kept %q: %q", name, id)
			}
		}
	})
}

// FuzzSideband feeds an answer with a pack: what comes out is never more than what went in.
func FuzzSideband(f *testing.F) {
	f.Add(packet("\x01PACK", "\x02progress", "\x01more", flushPacket))
	f.Add(packet("\x03fatal: no\n"))
	f.Add(packet("", "\x01", flushPacket) + "0005\x01")
	f.Fuzz(func(t *testing.T, text string) {
		out, err := io.ReadAll(&sideband{p: newPackets(strings.NewReader(text))})
		if len(out) > len(text) || err == nil && !strings.Contains(text, "000") {
			t.Errorf("%d bytes of %d, %v", len(out), len(text), err)
		}
	})
}

// FuzzModules feeds .gitmodules: whatever is taken stays inside the repository, and on its host.
func FuzzModules(f *testing.F) {
	f.Add("[submodule \"lib\"]\n\tpath = lib\n\turl = ../lib.git\n")
	f.Add("[submodule \"x\"]\n\tpath = ../x\n\turl = --upload-pack=x\n")
	f.Add("[submodule \"x\"]\n\tpath = a/b\n\turl = git@example.org:x\n[include]\n\tpath = /etc/passwd\n")
	f.Add("[submodule \"x\"] path = \"a\\\"b\"\nurl = ssh://example.org:22/x ; comment\n")
	from, err := url.Parse("ssh://git@example.org/team/app.git")
	must(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		modules, err := parseModules([]byte(text))
		if err != nil {
			return
		}
		for _, m := range modules {
			if strings.HasPrefix(m.path, "/") || strings.Contains("/"+m.path+"/", "/../") {
				t.Errorf("path %q", m.path)
			}
			if u, err := moduleURL(from, m.url); err == nil && (u.Scheme != "ssh" || u.Hostname() != "example.org") {
				t.Errorf("URL %q leads to %s", m.url, u)
			}
		}
	})
}

// FuzzKnownHosts feeds known_hosts: no panic, and a host is known only by a line that names it.
func FuzzKnownHosts(f *testing.F) {
	_, key := newKey(f)
	f.Add("example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0wYsVnYzYyWq0c5vQ6b1JrY0c0ZJ5K1u7sYx3Jm0aB", "example.org:22")
	f.Add("|1|AAAA|BBBB,*.example.org,!x ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0wYsVnYzYyWq0c5vQ6b1JrY0c0ZJ5K1u7sYx3Jm0aB", "a.example.org:2222")
	f.Fuzz(func(t *testing.T, text, address string) {
		hosts, err := parseKnownHosts([]byte(text))
		if err != nil {
			return
		}
		if hosts.check(address, key) == nil {
			t.Error("a key that was made just now is known")
		}
		_ = hosts.algorithms(address)
	})
}
