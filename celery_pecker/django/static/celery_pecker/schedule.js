"use strict";
// Shows the next runs while a user types. Without it the button Preview does.
{
  const WAIT = 300; // milliseconds after the last key

  const begin = () => {
    const panel = document.getElementById("pecker-preview");
    if (!panel) {
      return;
    }
    const form = panel.closest("form");
    const body = panel.querySelector(".pecker-preview-body");
    const button = panel.querySelector("button[name='_preview']");
    let timer = 0;
    let asked = 0;

    const show = async () => {
      const mine = (asked += 1);
      let text = "";
      try {
        const answer = await fetch(panel.dataset.url, {
          method: "POST",
          body: new FormData(form),
          redirect: "manual",
        });
        if (!answer.ok) {
          return;
        }
        text = await answer.text();
      } catch {
        return; // the network is away: the next key asks again
      }
      if (mine === asked) {
        body.innerHTML = text; // escaped by the server
      }
    };

    const later = () => {
      clearTimeout(timer);
      timer = setTimeout(show, WAIT);
    };

    // Enter in a field presses the first button that submits: that is to be Save.
    button.type = "button";
    button.addEventListener("click", show);
    form.addEventListener("input", later);
    form.addEventListener("change", later);
  };

  document.addEventListener("DOMContentLoaded", begin);
}
