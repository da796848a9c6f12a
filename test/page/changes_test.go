package page

import "strings"

// canCommit is true once a change was shown for long enough to be looked at.
const canCommit = `document.querySelector("dialog button.main:enabled")`

// changes has somebody suspend a service, by keys alone, and take that back: each is shown before it is a commit, and followed afterwards.
func changes(w *world) {
	tab := w.tab(operator)
	tab.load("/services/still")
	tab.sees("1 of 1 clusters")
	tab.keys("u")
	tab.sees("plural service suspend still", "+  suspend: true")
	tab.until("the message is to be written", `document.activeElement.matches("dialog form input")`)
	tab.until("it can be committed", canCommit)
	tab.axe("a change")
	tab.types("Leave still alone")
	tab.keys("enter")
	tab.sees("Committed as", "agents leave the service alone.")
	tab.seen("change")
	tab.keys("esc", "@")
	tab.sees("Suspend still", "committed as")
	tab.keys("esc")
	tab.sees("Leave still alone")
	w.git("pull", "-q", "--rebase", "--autostash", "origin", "main")
	if last := w.git("log", "-1", "--format=%s by %an: %H"); !strings.HasPrefix(last, "Leave still alone by operator: ") {
		w.Errorf("the newest commit is %s", last)
	}

	tab.goTo("/history")
	tab.sees("Leave still alone")
	tab.keys("z")
	tab.sees("Take back", "-  suspend: true")
	tab.until("it can be committed", canCommit)
	tab.keys("enter")
	tab.sees("Committed as", "the hub serves it.")
	tab.keys("esc")
	tab.sees(`Revert "Leave still alone"`)
	tab.goTo("/services/still")
	tab.sees("1 of 1 clusters")

	reader := w.tab(eve)
	reader.load("/services/still")
	reader.sees("You may not see this")
	reader.keys("u")
	reader.sees("You may not edit")
	if dialogs := eval[int](reader, `document.querySelectorAll("dialog").length`); dialogs != 0 {
		w.Error("somebody who may not edit is asked to")
	}
}

// overtaken has somebody else change what is shown before it is committed, which is not done then; and a slip of the pen is warned of.
func overtaken(w *world) {
	tab := w.tab(operator)
	tab.load("/services/podinfo")
	tab.sees("3 of 3 clusters", "served")
	tab.click(".actions button", "Change")
	tab.click("dialog [aria-label=Parameter]", "")
	tab.types("replicas")
	tab.click("dialog [aria-label=Value]", "")
	tab.types("1")
	tab.click("dialog button", "Show the commit")
	tab.sees("plural service set podinfo replicas=1", `+    replicas: "1"`)
	tab.until("it can be committed", canCommit)
	w.plural("service", "set", "podinfo", "replicas=3", "--yes", "-C", w.repo)
	tab.click("dialog button", "Commit")
	tab.sees(`"services/podinfo.yaml" was changed meanwhile`)
	tab.seen("overtaken")
	tab.click("dialog button", "Cancel")
	if now := w.git("show", "HEAD:services/podinfo.yaml"); !strings.Contains(now, `replicas: "3"`) {
		w.Errorf("the service is\n%s", now)
	}
	w.plural("service", "set", "podinfo", "replicas=2", "--yes", "-C", w.repo)

	tab.click(".actions button", "Change")
	tab.click("dialog [aria-label=Parameter]", "")
	tab.types("replica")
	tab.click("dialog button", "Show the commit")
	tab.sees("nothing in service podinfo reads spec.parameters.replica")
	tab.axe("a change that is warned of")
	tab.keys("esc")
}
