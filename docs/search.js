// The index of words reads a dash before a word as "without it": an option, typed as it is, would find nothing.
document.addEventListener(
  "input",
  ({ target }) => {
    if (target.matches("[data-md-component=search-query]")) {
      const words = target.value.replace(/(^|\s)-+(?=\w)/g, "$1");
      if (words !== target.value) target.value = words;
    }
  },
  true,
);
