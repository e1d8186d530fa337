// Formulas are set by the MathJax beside the site; nothing is loaded from elsewhere.
window.MathJax = {
  tex: { inlineMath: [["\\(", "\\)"]], displayMath: [["\\[", "\\]"]], tags: "none" },
  options: { ignoreHtmlClass: ".*", processHtmlClass: "arithmatex", enableMenu: false },
  svg: { fontCache: "global" },
};
